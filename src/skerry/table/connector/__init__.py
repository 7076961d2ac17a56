"""What engines such as Spark need of a table of any format: reading, writing and streaming task by task."""
