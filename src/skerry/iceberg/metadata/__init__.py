"""Table metadata: what metadata.json holds, read and updated; schemas, and the state of a table."""
