"""Catalogs of Iceberg tables: which metadata file a name stands for, and how it is replaced atomically."""
