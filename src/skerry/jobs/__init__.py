"""Jobs: plan → picklable tasks → commit. Each job exists once; the executor runs its tasks in threads or on Spark."""
