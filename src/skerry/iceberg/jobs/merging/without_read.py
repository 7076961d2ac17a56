"""Merge without reading the table: keys are deleted whether they exist or not, and rows are inserted.

This lands a stream of changes fast: its cost does not depend on the table. Equality deletes contain the deleted keys;
they apply to all older data files, and not to the rows added with them.

Spec: Iceberg spec, Equality Delete Files, Scan Planning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.iceberg.jobs.row_changes import ChangeRequest
from skerry.iceberg.manifests.manifest import ManifestEntry
from skerry.iceberg.manifests.manifest_list import ManifestContent
from skerry.iceberg.manifests.snapshot_manifests import read_manifests, spec_of
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.iceberg.metadata.state import TableState
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.operations.conflicts import Isolation
from skerry.iceberg.writing.delete_files import write_equality_deletes
from skerry.iceberg.writing.layout import FileLayout
from skerry.iceberg.writing.table_writers import write_batches
from skerry.table.merging import MergeRules, MergeSource
from skerry.table.predicate import ALWAYS_TRUE
from skerry.table.rows.schema import field_id
from skerry.table.summaries import RowChangeSummary

__all__ = ["merge_blind"]


def merge_blind(request: ChangeRequest, state: TableState, source: MergeSource, rules: MergeRules) -> RowChangeSummary:
    """Merge without reading data files or manifests.

    Args:
        request: The table, and how to change it.
        state: The state.
        source: The source; no key is in it twice.
        rules: The clauses.

    Raises:
        UnsupportedError: The result for a row depends on the table; the keys do not determine the partition of their
            rows; or a key column has a type that is compared in several ways.
    """
    if state.metadata.format_version < 2:
        raise UnsupportedError(
            "a blind merge needs delete files, which tables of format version 1 do not have: upgrade the table",
            location=state.name,
        )
    for name in source.on:
        if pa.types.is_floating(state.schema.field(name).type):
            raise UnsupportedError(
                f"a blind merge on the floating-point column {name!r}: readers disagree on NaN and -0.0",
                rule="Iceberg spec, Identifier Field IDs",
            )
    ended = rules.blind(source)
    if ended is None:
        raise UnsupportedError(
            "a blind merge must leave every row of the source the same way, whether it matches a row or not: updated "
            "in full or inserted with the same values, deleted or not inserted"
        )
    deleted, inserted = ended
    layout = request.table.layout(ref=request.ref)
    with layout.owned_files():
        written = write_batches(layout, inserted)
        deletes = _delete_keys(request, state, layout, source, source.rows.take(pa.array(deleted)))
        snapshot = state.snapshot(request.ref)
        committed = request.table.commit(
            RowDelta(
                tuple(written),
                tuple(deletes),
                starting_snapshot_id=snapshot.snapshot_id if snapshot is not None else None,
                isolation=Isolation.SNAPSHOT.value,  # nothing was read: concurrent appends count as before or after
                conflict_filter=ALWAYS_TRUE,
                ref=request.ref,
                properties=request.properties,
                staged=request.staged,
            )
        )
    return replace(
        request.outcome(committed),
        inserted_rows=sum(file.data_file.record_count for file in written),
        updated_rows=None,
        deleted_rows=None,
        added_files=len(written),
        added_delete_files=len(deletes),
    )


def _delete_keys(
    request: ChangeRequest, state: TableState, layout: FileLayout, source: MergeSource, rows: pa.Table
) -> list[ManifestEntry]:
    """Equality deletes of keys, for every partition spec that files of the branch have."""
    if not rows.num_rows:
        return []
    field_ids = [field_id(state.schema.field(name)) for name in source.on]
    rows = rows.select([name for name in state.schema.names if name in source.on])
    written = []
    for spec in _specs_in_use(request, state):
        known = set(field_ids)
        if any(field.source_id not in known for field in spec.fields):
            name = state.metadata.schema().find_column_name(
                next(field.source_id for field in spec.fields if field.source_id not in known)
            )
            raise UnsupportedError(
                f"a blind merge must find the partitions of its keys, and the table is partitioned by {name!r}, which "
                "is not among them",
                location=state.name,
            )
        written += write_equality_deletes(layout, rows.to_batches(), field_ids, spec=spec)
    return written


def _specs_in_use(request: ChangeRequest, state: TableState) -> Sequence[PartitionSpec]:
    """The partition specs that data files of the branch have, or may have when it commits.

    Keys of an unpartitioned spec apply to the files of all specs.
    """
    snapshot = state.snapshot(request.ref)
    listed = [] if snapshot is None else read_manifests(state.storage, snapshot)
    specs = state.metadata.specs()
    unpartitioned = [spec for spec in specs.values() if spec.is_unpartitioned()]
    if unpartitioned and any(not spec.is_unpartitioned() for spec in specs.values()):
        return unpartitioned[:1]
    used = {
        spec_of(state.metadata, manifest).spec_id
        for manifest in listed
        if manifest.content is ManifestContent.DATA and manifest.has_live_files
    }
    return [specs[spec_id] for spec_id in sorted({*used, state.spec.spec_id})]
