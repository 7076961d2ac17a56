"""Keys that may move between partitions: a row finds the older row of its key wherever that is.

If the primary key of a table with dynamic buckets lacks a partition key, the table has one row per key all the same.
Every writer therefore knows where each key is. What happens to a row whose key is in another partition depends on the
merge engine: `deduplicate` deletes the older row there, `partial-update` and `aggregation` send the new row there,
`first-row` drops it.

Spec: docs/formats/paimon.md § 7.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.paimon.merging.order_keys import encode_order_keys
from skerry.paimon.metadata.options import MergeEngine
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.writing.bucket_states import BucketStates
from skerry.paimon.writing.dynamic_buckets import MOST_BUCKETS
from skerry.paimon.writing.key_locations import KeyLocations
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.routing import BUCKET_COLUMN, split_partitions

__all__ = ["CrossPartitionKeys"]

_STEP_ROWS: Final = 1 << 16
_BUCKET_BITS: Final = 16
_BUCKET_MASK: Final = (1 << _BUCKET_BITS) - 1
_WORD_BITS: Final = 64
_SIGN: Final = np.uint64(1 << 63)
_DELETE: Final = 3
_Kinds: TypeAlias = npt.NDArray[np.int8]
_Numbers: TypeAlias = npt.NDArray[np.int64]


class CrossPartitionKeys:
    """The partition and bucket of every key of a table.

    Args:
        layout: Layout of the table's files.
        state: The state whose keys are added.
    """

    def __init__(self, layout: WriteLayout, state: PaimonState) -> None:
        self._schema = layout.schema
        self._engine = layout.options.merge_engine
        self._target_rows = max(layout.options.dynamic_bucket_target_rows, 1)
        self._fields = layout.schema.fields_of(layout.schema.primary_keys)
        types = [layout.schema.arrow_schema.field(name).type for name in layout.schema.primary_keys]
        self._fits_word = all(map(pa.types.is_integer, types)) and sum(type_.bit_width for type_ in types) <= _WORD_BITS
        self._locations = KeyLocations()
        self._numbers: dict[bytes, int] = {}
        self._partitions: list[pa.RecordBatch] = []
        """By number of the partition, its keys as one row."""
        self._counts: list[list[int]] = []
        """By number of the partition, the number of keys of each bucket."""
        self._open: list[int] = []
        """By number of the partition, the first bucket that can have room."""
        self._has_retracts = False
        self._known = BucketStates()
        self.keep(state)

    # ---- the state that they belong to ----

    def add(self, partition: bytes, bucket: int, rows: pa.RecordBatch) -> None:
        """Add keys of the state.

        Args:
            partition: Their partition as a row with arity.
            bucket: Their bucket.
            rows: At least one row, with the columns of the primary key and of the partition keys.
        """
        number = self._number(partition, rows.slice(0, 1))
        keys = self._keys(rows).to_pylist()
        location = number << _BUCKET_BITS | bucket
        self._locations.put(sorted((key, location) for key in keys))
        counts = self._counts[number]
        counts += [0] * (bucket + 1 - len(counts))
        counts[bucket] += len(keys)

    def keep(self, state: PaimonState) -> None:
        """Say that they are those of a state, which has what was written with them."""
        snapshot = state.snapshot
        self._known = BucketStates() if snapshot is None else BucketStates(snapshot.id, snapshot.delta_manifest_list)

    def are_of(self, state: PaimonState) -> bool:
        """Whether a state has the same keys in the same places."""
        if self._schema.id != state.schema.id:
            return False
        if self._has_retracts and self._engine is not MergeEngine.DEDUPLICATE:
            return False  # whether a row is left is only known when it is merged
        written = self._known.written_since(state)
        return written is not None and not written

    # ---- rows ----

    def assign(self, rows: pa.RecordBatch, kinds: _Kinds) -> Iterator[tuple[pa.RecordBatch, _Kinds]]:
        """Choose where rows are written.

        Args:
            rows: Rows with the table's columns.
            kinds: int8[rows] Their kinds.

        Yields:
            The records to write and their kinds, in order: rows with the partition keys of their partition, and before
            them deletes of rows in other partitions. `BUCKET_COLUMN` follows the table's columns.
        """
        for start in range(0, rows.num_rows, _STEP_ROWS):
            yield self._assign(rows.slice(start, _STEP_ROWS), kinds[start : start + _STEP_ROWS])

    def _assign(self, rows: pa.RecordBatch, kinds: _Kinds) -> tuple[pa.RecordBatch, _Kinds]:
        asked = np.empty(rows.num_rows, np.int64)
        for partition, chosen in split_partitions(self._schema, rows):
            asked[chosen] = self._number(partition, rows.slice(int(chosen[0]), 1))
        keys = self._keys(rows).dictionary_encode()
        distinct = keys.dictionary.to_pylist()
        before = self._locations.find(distinct)
        retracts = (kinds & 1) == 1
        self._has_retracts |= bool(retracts.any())
        now = before.tolist()
        places, moved, left = self._follow(np.asarray(keys.indices).tolist(), asked.tolist(), retracts.tolist(), now)
        changed = np.flatnonzero(np.array(now, np.int64) != before).tolist()
        self._locations.put(sorted((distinct[code], now[code]) for code in changed))
        kept = np.flatnonzero(places >= 0)
        order = np.argsort(np.concatenate([2 * moved, 2 * kept + 1]), kind="stable")
        taken = np.concatenate([moved, kept])[order]
        locations = np.concatenate([left, places[kept]])[order]
        of_kind = np.concatenate([np.full(len(moved), _DELETE, np.int8), kinds[kept]])[order]
        return self._placed(rows.take(pa.array(taken)), locations), of_kind

    def _follow(
        self, codes: list[int], asked: list[int], retracts: list[bool], now: list[int]
    ) -> tuple[_Numbers, _Numbers, _Numbers]:
        """Follow keys from row to row.

        Args:
            codes: The key of each row.
            asked: The partition that each row names.
            retracts: Whether it takes back another.
            now: The location of each key, -1 if it has none; becomes that after the rows.

        Returns:
            int64[rows]: where each row is written, -1 for nowhere; int64[n]: the rows whose keys have left another
            location; int64[n]: that location.
        """
        places, moved, left = [], [], []
        for row, (code, partition, is_retract) in enumerate(zip(codes, asked, retracts, strict=True)):
            place = now[code]
            if place < 0:
                place = self._new_place(partition)
            elif place >> _BUCKET_BITS != partition:
                if self._engine is MergeEngine.FIRST_ROW:
                    places.append(-1)
                    continue
                if self._engine is MergeEngine.DEDUPLICATE and not is_retract:
                    moved.append(row)
                    left.append(place)
                    self._leave(place)
                    place = self._new_place(partition)
            now[code] = place
            places.append(place)
        return np.array(places, np.int64), np.array(moved, np.int64), np.array(left, np.int64)

    def _new_place(self, partition: int) -> int:
        """The location of a new key: the first bucket with room, else another one."""
        counts, bucket = self._counts[partition], self._open[partition]
        while bucket < len(counts) and counts[bucket] >= self._target_rows:
            bucket += 1
        if bucket >= MOST_BUCKETS:
            raise SchemaError(f"a partition has at most {MOST_BUCKETS} buckets; raise dynamic-bucket.target-row-num")
        if bucket == len(counts):
            counts.append(0)
        counts[bucket] += 1
        self._open[partition] = bucket
        return partition << _BUCKET_BITS | bucket

    def _leave(self, place: int) -> None:
        """Make room where a key was."""
        partition, bucket = place >> _BUCKET_BITS, place & _BUCKET_MASK
        self._counts[partition][bucket] -= 1
        self._open[partition] = min(self._open[partition], bucket)

    def _placed(self, rows: pa.RecordBatch, locations: _Numbers) -> pa.RecordBatch:
        """Rows with the partition keys and buckets of their locations."""
        used, numbers = np.unique(locations >> _BUCKET_BITS, return_inverse=True)
        for name in self._schema.partition_keys if len(used) else ():
            values = pa.concat_arrays([self._partitions[number].column(name) for number in used.tolist()])
            rows = rows.set_column(
                rows.schema.get_field_index(name), rows.schema.field(name), values.take(pa.array(numbers))
            )
        return rows.append_column(BUCKET_COLUMN, pa.array((locations & _BUCKET_MASK).astype(np.int32)))

    def _number(self, partition: bytes, row: pa.RecordBatch) -> int:
        """The number of a partition, of which one row is given."""
        number = self._numbers.get(partition)
        if number is None:
            number = self._numbers[partition] = len(self._partitions)
            self._partitions.append(pa.concat_batches([row.select(list(self._schema.partition_keys))]))
            self._counts.append([])
            self._open.append(0)
        return number

    def _keys(self, rows: pa.RecordBatch) -> pa.Array:
        """The primary keys, as integers in their order where eight bytes hold them, else as bytes."""
        if self._fits_word:
            words = encode_order_keys(
                [rows.column(field.name) for field in self._fields], [False] * len(self._fields)
            ).words
            return pa.array((words ^ _SIGN).view(np.int64))
        rows_of = encode_rows(
            [field.type for field in self._fields], [rows.column(field.name) for field in self._fields]
        )
        buffers = [None, pa.py_buffer(rows_of.offsets), pa.py_buffer(rows_of.data)]
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(rows_of), buffers)
