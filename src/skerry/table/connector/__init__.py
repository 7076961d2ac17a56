"""What engines such as Spark need from a table of any format: reads, writes and streams that run as tasks."""
