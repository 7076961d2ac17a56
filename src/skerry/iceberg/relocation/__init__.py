"""A table whose files have been copied or moved: metadata that names them where they lie now.

New metadata is written beside the old and published by whoever asked for it; nothing is changed or deleted. What holds
locations is written again: metadata files, manifest lists, manifests, files of deleted positions, and the samples in
statistics files, which know data files by the hash of their location. All other files stay as they are.

Spec: Iceberg spec, Paths in Metadata: file paths are absolute.
"""

from __future__ import annotations

from skerry.iceberg.relocation.table import RelocatedTable, concerns_table, relocate_table

__all__ = ["RelocatedTable", "concerns_table", "relocate_table"]
