"""What the checks of a Paimon table's health need to know besides its metadata tables; see `Table.health`."""

from __future__ import annotations

from skerry.paimon.handle import PaimonHandle
from skerry.paimon.jobs.expire import ExpiryRule, plan_expired
from skerry.paimon.metadata.consumers import least_next_snapshot
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.inspection.upkeep import Upkeep
from skerry.table.statistics.column_statistics import SketchPolicy

__all__ = ["upkeep"]


def upkeep(handle: PaimonHandle) -> Upkeep:
    """What the checks of a table's health need to know besides its metadata tables.

    Raises:
        SchemaError: An option has an invalid value.
    """
    state = handle.state
    layout = WriteLayout(state.name, state.location, state.storage, state.schema, state.branch)
    snapshots = handle.snapshots()
    rule = ExpiryRule.of(state, None, None)
    expired = plan_expired(snapshots, rule, least_next_snapshot(state.storage, state.paths))
    newest = state.paths.schema(state.schema.id) if state.snapshot is None else state.paths.snapshot(state.snapshot.id)
    options = state.options
    policy = SketchPolicy.from_properties(state.properties)
    return Upkeep(
        small_file_bytes=layout.target_file_size // 2,
        min_input_files=options.compaction_trigger if layout.has_keys else options.compaction_min_file_num,
        beside=("bucket",),
        snapshots=len(snapshots),
        expirable_snapshots=len(expired),
        metadata_bytes=state.storage.size(newest),
        manifests_to_rewrite=None,
        split_partitions="catalog.create_table(…, partition_by=[…, 'bucket(16, …)'])",
        sketched=frozenset(leaf.name for leaf in policy.columns(state.arrow_schema, created=True)),
    )
