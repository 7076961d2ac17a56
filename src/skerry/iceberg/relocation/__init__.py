"""Relocation: new metadata for a table whose files were copied or moved, or are copied now.

New metadata is written beside the old, or to the place of a copy, and published by the caller; nothing is changed or
deleted. Files that contain
locations are rewritten: metadata files, manifest lists, manifests, position delete files, and the samples in statistics
files, which identify data files by the hash of their location. All other files stay.

Spec: Iceberg spec, Paths in Metadata: file paths are absolute.
"""

from __future__ import annotations

from skerry.iceberg.relocation.copying import copy_table, renamed_metadata
from skerry.iceberg.relocation.table import RelocatedTable, concerns_table, relocate_table

__all__ = ["RelocatedTable", "concerns_table", "copy_table", "relocate_table", "renamed_metadata"]
