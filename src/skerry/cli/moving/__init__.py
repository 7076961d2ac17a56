"""Commands that take a table, or a warehouse, to another format or place."""
