"""Merges into Iceberg tables: rows are matched in tasks, then written by one process or by tasks."""
