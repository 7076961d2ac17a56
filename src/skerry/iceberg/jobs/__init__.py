"""Jobs on Iceberg tables: plan → picklable tasks → commit. Tasks run in threads or on Spark."""
