"""What operations do to the samples of a table's files.

An append adds rows. A record of a primary-key table may take the place of another one with its key: where a new file's
keys may overlap with those of others, the values that it replaces are not known, and the groups of its partition may
count some too many.
"""

from __future__ import annotations

from collections.abc import Iterable

from skerry.paimon.manifest import ManifestEntry
from skerry.paimon.state import PaimonState
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.group_samples import SketchedFile, key_of
from skerry.table.table_sample import SampleChange
from skerry.theta import Sample

__all__ = ["added_samples", "partition_key", "replaced_samples", "sketched"]


def partition_key(partition: bytes, bucket: int, *, has_keys: bool) -> str:
    """The name of what samples call a partition: rows that may take each other's place are in one."""
    return f"{partition.hex()}/{bucket}" if has_keys else partition.hex()


def sketched(file: WrittenDataFile, *, has_keys: bool) -> SketchedFile:
    """A new file with its samples."""
    place, meta = file.place, file.file
    samples = {field_id: Sample.deserialize(data) for field_id, data in file.samples.items()}
    return SketchedFile(
        meta.file_name,
        partition_key(place.partition, place.bucket, has_keys=has_keys),
        meta.row_count - (meta.delete_row_count or 0),
        samples,
    )


def added_samples(base: PaimonState, layout: WriteLayout, files: Iterable[WrittenDataFile]) -> SampleChange:
    """What new files mean for the samples."""
    rows = [file for file in files if not file.is_changelog]
    sampled = [sketched(file, has_keys=layout.has_keys) for file in rows if file.samples]
    gone: dict[str | None, int] = {}
    if layout.has_keys and base.snapshot is not None:
        gone = {
            partition_key(file.place.partition, file.place.bucket, has_keys=True): key_of(file.file.file_name)
            for file in rows
        }
    return SampleChange(added=tuple(sampled), unsampled_files=len(rows) - len(sampled), rows_gone=gone)


def replaced_samples(
    layout: WriteLayout,
    removed: Iterable[ManifestEntry],
    files: Iterable[WrittenDataFile],
    *,
    same_rows: bool = False,
) -> SampleChange:
    """What it means for the samples that files come in the place of others."""
    rows = [file for file in files if not file.is_changelog]
    sampled = [sketched(file, has_keys=layout.has_keys) for file in rows if file.samples]
    return SampleChange(
        added=tuple(sampled),
        unsampled_files=len(rows) - len(sampled),
        removed=frozenset(entry.file.file_name for entry in removed),
        same_rows=same_rows,
    )
