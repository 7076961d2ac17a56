"""The samples of a table's state, and how a commit changes them.

The samples of groups of files (`skerry.table.statistics.group_samples`) cover the files that were sketched. Files that
other writers added are *missing* until they are sketched. A column is fresh only if no file is missing and its sample
describes exactly the live rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, TypeVar

from skerry.table.files.data_file import DataFile
from skerry.table.properties import whole_number
from skerry.table.statistics.file_groups import SketchedFile, ThinnedGroup, key_of
from skerry.table.statistics.group_samples import MAX_GROUPS, GroupSamples
from skerry.table.statistics.group_sketches import GroupSketches
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.written_file import WrittenFile
from skerry.theta import Sample

__all__ = [
    "SampleChange",
    "TableSample",
    "delete_name",
    "max_groups",
    "partition_name",
    "sketched_file",
    "sketched_files",
]

_Value = TypeVar("_Value")

MAX_GROUPS_PROPERTY = "skerry.statistics.max-groups"
"""Table property: maximum number of groups of files."""


def max_groups(properties: Mapping[str, str]) -> int:
    """The maximum number of groups in a table's samples.

    Raises:
        SchemaError: The property is not a whole number above 0.
    """
    return whole_number(properties, MAX_GROUPS_PROPERTY, MAX_GROUPS)


def partition_name(spec_id: int, values: Iterable[Any]) -> str:
    """The name of a partition: the same for equal values, whichever reader decoded them."""
    return repr((spec_id, *map(_canonical, values)))


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0  # no negative zero
    return str(value.normalize()) if isinstance(value, Decimal) else value


def delete_name(location: str, content_offset: int | None) -> str:
    """The name of a delete file, or of a deletion vector in one; for `deletes_key`."""
    return location if content_offset is None else f"{location}#{content_offset}"


@dataclass(frozen=True, slots=True, eq=False)
class SampleChange:
    """The effect of a commit on the sampled files.

    Args:
        added: Data files that are added, with their samples.
        added_groups: Data files that are added, in groups of another snapshot's samples.
        unsampled_files: Number of data files added without samples.
        removed: Locations of the data files that are removed.
        deletes: By location of a data file, the key of the deletes that it gains and loses: see `deletes_key`.
        thinned: Groups that lose rows, with the hashes that go with them.
        resketched: Files that stay and were sampled again, with the deletes that apply to them after the change.
        rows_gone: Keys of deletes whose rows were not located in files, by the partition in which they
            apply; None for all.
        same_rows: Whether the added files have the rows of the removed ones, and added deletes delete the same rows as
            the removed ones.
        schema_ids: The schemas by which values of the added files were hashed, if that may not be the base's.
    """

    added: tuple[SketchedFile, ...] = ()
    added_groups: GroupSamples = field(default_factory=GroupSamples)
    unsampled_files: int = 0
    removed: frozenset[str] = frozenset()
    deletes: Mapping[str, int] = field(default_factory=dict)
    thinned: tuple[ThinnedGroup, ...] = ()
    resketched: tuple[SketchedFile, ...] = ()
    rows_gone: Mapping[str | None, int] = field(default_factory=dict)
    same_rows: bool = False
    schema_ids: frozenset[int] = frozenset()

    @property
    def only_adds(self) -> bool:
        """Whether no row is removed or moved."""
        return not (self.removed or self.deletes or self.rows_gone)

    def without_columns(self, field_ids: Collection[int]) -> SampleChange:
        """The change as if some columns had not been sampled."""

        def left(files: tuple[SketchedFile, ...]) -> tuple[SketchedFile, ...]:
            return tuple(replace(file, samples=_without(file.samples, field_ids)) for file in files)

        return replace(
            self,
            added=left(self.added),
            added_groups=self.added_groups.with_columns(_without(self.added_groups.columns, field_ids)),
            thinned=tuple(replace(group, gone=_without(group.gone, field_ids)) for group in self.thinned),
            resketched=left(self.resketched),
        )


@dataclass(frozen=True, slots=True, eq=False)
class TableSample:
    """The samples of one state of a table.

    Args:
        groups: The samples.
        missing_files: Live data files that are in no group.
        own: Sketches of single groups, if the table keeps them.
    """

    groups: GroupSamples = field(default_factory=GroupSamples)
    missing_files: int = 0
    own: GroupSketches = field(default_factory=GroupSketches)

    @property
    def exact_columns(self) -> set[int]:
        """Field ids of the columns whose sample describes exactly the live rows."""
        if self.missing_files:
            return set()
        return {field_id for field_id in self.groups.columns if self.groups.is_exact(field_id)}

    def after(self, change: SampleChange, *, max_groups: int, sketch_bytes: int = 0) -> TableSample:
        """The samples after a change.

        Args:
            change: The effect of the commit.
            max_groups: Maximum number of groups.
            sketch_bytes: Maximum size of sketches of single groups.
        """
        groups = self.groups
        known = groups.files if change.removed or change.deletes else {}
        missing = self.missing_files - sum(key_of(location) not in known for location in change.removed)
        if change.same_rows:
            groups = groups.with_files_rewritten(change.removed, change.added, max_groups=max_groups)
        else:
            groups = groups.without_files(change.removed)
        groups = groups.with_thinned(change.thinned)
        changed = {key_of(location): delta for location, delta in change.deletes.items()}
        now = {key: known[key] ^ delta for key, delta in changed.items() if key in known}
        groups = groups.with_deletes(now, same_rows=change.same_rows)
        for partition, key in change.rows_gone.items():
            groups = groups.with_rows_gone(partition, key)
        groups = groups.with_resketched(change.resketched, max_groups=max_groups)
        if not change.same_rows:
            groups = groups.with_files(change.added, max_groups=max_groups)
        groups = groups.with_groups_of(change.added_groups, max_groups=max_groups)
        own = self.own.of(groups.groups, self.groups.groups, (*change.added, *change.resketched), sketch_bytes)
        return TableSample(groups, max(missing, 0) + change.unsampled_files, own)

    def without_columns(self, field_ids: Collection[int]) -> TableSample:
        """The samples of the other columns."""
        kept = _without(self.groups.columns, field_ids)
        return TableSample(self.groups.with_columns(kept), self.missing_files, self.own.with_columns(kept))

    def with_missing(self, live: Mapping[int, int]) -> TableSample:
        """The samples that are still valid after other writers have changed the table.

        Args:
            live: By key of the location, the key of the deletes of each current data file of the table.
        """
        groups = self.groups.reconciled(live)
        return TableSample(groups, len(live.keys() - groups.files.keys()), self.own)


def _without(values: Mapping[int, _Value], field_ids: Collection[int]) -> dict[int, _Value]:
    return {field_id: value for field_id, value in values.items() if field_id not in field_ids}


def sketched_files(written: Iterable[WrittenFile]) -> tuple[tuple[SketchedFile, ...], int]:
    """The samples of new files, and the number of files without samples."""
    files = tuple(written)
    sampled = tuple(
        replace(sketched_file(file.data_file, file.samples, rows=file.rows), schema_id=file.schema_id)
        for file in files
        if file.samples
    )
    return sampled, len(files) - len(sampled)


def sketched_file(
    file: DataFile,
    samples: Mapping[int, Sample],
    *,
    row_count: int | None = None,
    deletes: int = 0,
    rows: RowSample | None = None,
) -> SketchedFile:
    """A data file with its samples.

    Args:
        file: The file.
        samples: Samples by field id.
        row_count: Live rows, if not all are.
        deletes: Key of the deletes that were applied.
        rows: Some of its live rows.
    """
    return SketchedFile(
        file.location,
        partition_name(file.spec_id, file.partition),
        file.record_count if row_count is None else row_count,
        samples,
        deletes,
        rows,
    )
