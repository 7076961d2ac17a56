"""The effects of operations on the samples of a table's files.

An append adds rows. A record of a primary-key table may replace another one with its key: if a new file's keys may
overlap with those of others, the replaced values are unknown, and the groups of its partition may overcount.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.options import MergeEngine
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.row_sections import is_dedicated_name
from skerry.paimon.writing.data_files import WrittenDataFile
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.statistics.file_groups import SketchedFile, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.table_sample import SampleChange
from skerry.theta import Sample

__all__ = ["added_samples", "partition_key", "replaced_samples", "sketched"]


def partition_key(partition: bytes, bucket: int, *, has_keys: bool) -> str:
    """The partition name for samples: rows that may replace each other are in one partition."""
    return f"{partition.hex()}/{bucket}" if has_keys else partition.hex()


def sketched(file: WrittenDataFile, *, has_keys: bool) -> SketchedFile:
    """A new file with its samples."""
    bucket, meta = file.bucket, file.file
    return SketchedFile(
        meta.file_name,
        partition_key(bucket.partition, bucket.number, has_keys=has_keys),
        meta.row_count - (meta.delete_row_count or 0),
        file.samples,
        rows=file.rows,
    )


def added_samples(base: PaimonState, layout: WriteLayout, files: Iterable[WrittenDataFile]) -> SampleChange:
    """The effect of new files on the samples."""
    rows = [file for file in files if not file.is_changelog]
    change = _hashed(_change(layout, rows, is_exact=not _may_lose(base, layout)), rows)
    keeps_first = layout.options.merge_engine is MergeEngine.FIRST_ROW  # whose rows no record replaces
    if not layout.has_keys or base.snapshot is None or keeps_first:
        return change
    gone: dict[str | None, int] = {_bucket(file): key_of(file.file.file_name) for file in rows}
    return replace(change, rows_gone=gone)


def _may_lose(base: PaimonState, layout: WriteLayout) -> bool:
    """Whether records of new files may be superseded by older ones."""
    options = layout.options
    grouped = any(name.endswith(".sequence-group") for name in layout.schema.options)
    chooses = bool(options.sequence_fields) or grouped
    # and where readers skip level 0, none of the rows is in the table yet
    return layout.has_keys and (options.batch_reads_skip_level_0 or (base.snapshot is not None and chooses))


def replaced_samples(
    layout: WriteLayout,
    removed: Iterable[ManifestEntry],
    files: Iterable[WrittenDataFile],
    *,
    same_rows: bool = False,
    is_newest: bool = True,
) -> SampleChange:
    """The effect on the samples when files replace others.

    Args:
        layout: How the new files were written.
        removed: The removed files.
        files: The added files.
        same_rows: Whether the new files have exactly the rows of the others.
        is_newest: Whether no other file can have a newer record of a key.
    """
    rows = [file for file in files if not file.is_changelog]
    change = _hashed(_change(layout, rows, is_exact=is_newest), rows)
    return replace(
        change,
        removed=frozenset(entry.file.file_name for entry in removed),
        same_rows=same_rows and not layout.has_keys,
    )


def _hashed(change: SampleChange, files: Iterable[WrittenDataFile]) -> SampleChange:
    return replace(change, schema_ids=frozenset(file.file.schema_id for file in files))


def _change(layout: WriteLayout, rows: Sequence[WrittenDataFile], *, is_exact: bool) -> SampleChange:
    apart = [file for file in rows if is_dedicated_name(file.file.file_name)]
    if apart:
        change = _change(layout, [file for file in rows if file not in apart], is_exact=is_exact)
        return replace(change, added=(*change.added, *_without_rows(layout, apart)))
    columns = [file for file in rows if _continues_rows(file)]
    if columns:
        return _column_change(layout, [file for file in rows if not _continues_rows(file)], columns)
    sampled = tuple(sketched(file, has_keys=layout.has_keys) for file in rows if file.samples)
    unsampled = len(rows) - len(sampled)
    if is_exact:
        return SampleChange(added=sampled, unsampled_files=unsampled)
    # records that may be superseded are counted as a group whose lost rows are unknown
    groups = GroupSamples().with_files(sampled).with_rows_gone(None, 0)
    return SampleChange(added_groups=groups, unsampled_files=unsampled)


def _continues_rows(file: WrittenDataFile) -> bool:
    """Whether a file has columns of rows that are in the table."""
    return file.file.write_cols is not None and file.file.first_row_id is not None


def _column_change(
    layout: WriteLayout, rows: Sequence[WrittenDataFile], columns: Sequence[WrittenDataFile]
) -> SampleChange:
    """New rows, and new values of old rows: their old values are unknown, so that counts are an upper bound."""
    change = _change(layout, rows, is_exact=True)
    values = _without_rows(layout, columns)
    gone: dict[str | None, int] = dict.fromkeys((file.partition for file in values), 0)
    # they are also those of rows that are deleted already, or will be by vectors of another file
    groups = GroupSamples().with_files(values).with_rows_gone(None, 0)
    return replace(change, added_groups=groups, rows_gone=gone)


def _without_rows(layout: WriteLayout, files: Sequence[WrittenDataFile]) -> tuple[SketchedFile, ...]:
    """Files whose rows are those of others; of columns that they lack they have no values."""
    nothing = dict.fromkeys(layout.sketched, Sample())
    found = (sketched(file, has_keys=False) for file in files)
    return tuple(replace(file, row_count=0, samples={**nothing, **file.samples}, rows=None) for file in found)


def _bucket(file: WrittenDataFile) -> str:
    return partition_key(file.bucket.partition, file.bucket.number, has_keys=True)
