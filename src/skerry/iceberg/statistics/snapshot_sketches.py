"""The sketches that a new snapshot publishes, which describe exactly its rows, and its samples.

The base's samples, updated for the files of the commit, yield the sketches of the remaining rows. If samples do not
cover all files, because other writers added some, new rows are still united with the base's fresh sketches, and
rewrites keep them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from skerry.iceberg.metadata.snapshot import Snapshot
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.statistics.blob_budget import within_budget
from skerry.iceberg.statistics.known_samples import continued
from skerry.iceberg.statistics.published import extendable_sketches
from skerry.iceberg.statistics.samples import sample_of
from skerry.table.statistics.column_statistics import SketchPolicy
from skerry.table.statistics.file_groups import SketchedFile, key_of
from skerry.table.statistics.group_sketches import group_sketch_bytes
from skerry.table.statistics.pieces.growing import Growth, appended, changed
from skerry.table.statistics.table_sample import SampleChange, TableSample, max_groups
from skerry.theta import ThetaSketch, union

__all__ = ["sketches_after"]


def sketches_after(
    base: TableState, ref: str, change: SampleChange | None, data_bytes: int
) -> tuple[Mapping[int, ThetaSketch], TableSample | Growth | None]:
    """The sketches that a new snapshot publishes, by field id, and its samples, or what it adds to those before.

    Args:
        base: The state before.
        ref: The branch.
        change: The change of the files; None if unknown.
        data_bytes: Size of the files that the commit adds.
    """
    policy = SketchPolicy.from_properties(base.properties)
    if change is None or not policy.enabled:
        return {}, None
    snapshot = base.snapshot(ref)
    known = continued(base, snapshot)
    grown = None if known is None else appended(known, change, base.properties, data_bytes)
    if grown is not None and grown.sketches is not None:
        wanted = policy.columns(base.schema, created=False, sketched=grown.exact or ())
        sketches = {leaf.field_id: ThetaSketch.from_compact(grown.sketches[leaf.field_id]) for leaf in wanted}
        return within_budget(base, snapshot, sketches, data_bytes), grown
    published, after = _whole(base, snapshot, change, policy)
    if not change.same_rows and after is not None and published.keys() <= after.exact_columns:
        published = within_budget(base, snapshot, published, data_bytes)
    piece = None if after is None or known is None else changed(known, after, data_bytes)
    return published, piece or after


def _whole(
    base: TableState, snapshot: Snapshot | None, change: SampleChange, policy: SketchPolicy
) -> tuple[Mapping[int, ThetaSketch], TableSample | None]:
    """All sketches that can be published, and all samples."""
    before = sample_of(base, snapshot)
    after = before.after(
        change, max_groups=max_groups(base.properties), sketch_bytes=group_sketch_bytes(base.properties)
    )
    exact = after.exact_columns
    is_new = not before.missing_files and before.groups.files.keys() <= set(map(key_of, change.removed))
    wanted = policy.columns(base.schema, created=is_new, sketched=exact)
    published = {leaf.field_id: after.groups.sketch(leaf.field_id) for leaf in wanted if leaf.field_id in exact}
    if before.missing_files and snapshot is not None and (change.only_adds or change.same_rows):
        kept = extendable_sketches(base, snapshot)
        added = {} if change.same_rows else _union(change.added)
        for leaf in policy.columns(base.schema, created=False, sketched=kept):
            if leaf.field_id in published or leaf.field_id not in kept:
                continue
            if change.same_rows:
                published[leaf.field_id] = kept[leaf.field_id]
            elif leaf.field_id in added and not change.unsampled_files and not change.added_groups.groups:
                published[leaf.field_id] = union([kept[leaf.field_id], added[leaf.field_id]])
    return published, after if after.groups.columns else None


def _union(files: Sequence[SketchedFile]) -> dict[int, ThetaSketch]:
    """One sketch per column over several files, for the columns that all of them were sampled for."""
    columns = set.intersection(*(set(file.samples) for file in files)) if files else set()
    return {field_id: union([file.samples[field_id].to_sketch() for file in files]) for field_id in columns}
