"""Iceberg tables: schemas, partitions, metrics, manifests and metadata of format versions 1 to 3; planning and commits.

Pure format code (`schema`, `transforms`, `partitions`, `sorting`, `metrics`, `bounds`, `manifest*`, `summary`) decides
and encodes; `commit`, `scan`, `file_io` and `metadata` do the reading and writing.
"""
