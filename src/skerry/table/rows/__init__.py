"""Rows in memory: schemas and types, rows on their way in, keys, and columns of old files as they are today."""
