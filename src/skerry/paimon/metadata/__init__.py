"""Metadata: the files below a table's folder that say what it is; options, schemas, snapshots, tags and branches."""
