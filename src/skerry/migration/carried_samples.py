"""Samples of a table that is migrated to another format: the same files and rows under other names.

A table format names data files, their deletes and their partitions in its own way, and samples identify all three by
the keys of those names. The hashes stay valid as long as a column's values are hashed as the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from skerry.table.statistics.file_groups import FileGroup, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.table_sample import SampleChange

__all__ = ["CarriedFile", "carry_samples"]


@dataclass(frozen=True, slots=True)
class CarriedFile:
    """A data file under both of its names.

    Args:
        before: Its key in samples of the old table.
        after: Its key in samples of the new table.
        partition: The key of its partition in samples of the new table.
        deletes_before: The key of its deletes in the old table, 0 for none.
        deletes: The key of the same deletes in the new table.
    """

    before: str
    after: str
    partition: str
    deletes_before: int = 0
    deletes: int = 0


def carry_samples(groups: GroupSamples, files: Iterable[CarriedFile], field_ids: Collection[int]) -> SampleChange:
    """The sample change of a new table that begins with the files of another one.

    Args:
        groups: The samples of the old table's files.
        files: All data files of the new table.
        field_ids: The columns whose values both tables hash alike.
    """
    by_key = {key_of(file.before): file for file in files}
    known = groups.reconciled({key: file.deletes_before for key, file in by_key.items()})
    renamed = []
    for group in known.groups:
        mine = [by_key[key] for key in group.files]
        renamed.append(
            FileGroup(
                {key_of(file.after): file.deletes for file in mine},
                frozenset(key_of(file.partition) for file in mine),
                group.row_count,
                group.exact,
            )
        )
    kept = known.with_columns([field_id for field_id in known.columns if field_id in field_ids])
    unsampled = len(by_key) - sum(len(group.files) for group in renamed)
    if not kept.columns:
        return SampleChange(unsampled_files=len(by_key))
    keys = {key: key_of(file.after) for key, file in by_key.items()}
    rows = None if kept.rows is None else kept.rows.renamed(keys)
    return SampleChange(added_groups=replace(kept, groups=tuple(renamed), rows=rows), unsampled_files=unsampled)
