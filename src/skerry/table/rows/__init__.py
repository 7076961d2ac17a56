"""Rows in memory: schemas and types, conversion of incoming data, keys, and changes."""
