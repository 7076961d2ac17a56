"""Metadata: the files below a table's folder that define it; options, schemas, snapshots, tags and branches."""
