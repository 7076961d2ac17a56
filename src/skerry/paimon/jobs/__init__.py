"""Jobs on Paimon tables: plan → picklable tasks → commit. Tasks run in threads or on Spark."""
