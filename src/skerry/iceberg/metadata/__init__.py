"""Table metadata: reading and updating of metadata.json, schemas, and the state of a table."""
