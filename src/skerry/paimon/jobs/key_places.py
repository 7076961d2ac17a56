"""Where the keys of a table are that may move between partitions: read once, and kept as long as nobody else writes.

Spec: docs/formats/paimon.md § 7.6.
"""

from __future__ import annotations

import pyarrow as pa

from skerry.paimon.change_request import ChangeRequest
from skerry.paimon.jobs.row_tasks import RowJob
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.writing.cross_partition import CrossPartitionKeys
from skerry.paimon.writing.layout import WriteLayout
from skerry.table.predicate import ALWAYS_TRUE

__all__ = ["key_places"]


def key_places(request: ChangeRequest, state: PaimonState, layout: WriteLayout) -> CrossPartitionKeys:
    """The partition and bucket of every key of a state.

    They belong to the caller, who puts them back into `request.keys` if a commit has all that was written with them:
    after a failure they are read again.
    """
    kept = request.keys.pop(state.branch, None)
    if kept is not None and kept.are_of(state):
        return kept
    keys = CrossPartitionKeys(layout, state)
    schema = layout.schema
    names = dict.fromkeys((*schema.primary_keys, *schema.partition_keys))
    job = RowJob(request, state, layout)
    splits = job.splits(ALWAYS_TRUE)
    reader = job.reader(pa.schema([state.arrow_schema.field(name) for name in names]))
    for split in splits:
        for batch in reader.batches([split]):
            keys.add(split.partition, split.bucket, batch)
    return keys
