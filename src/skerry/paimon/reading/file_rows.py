"""Single rows of data files: only what can hold the wanted keys and rows is read, and kept decoded in bounded memory.

Spec: docs/formats/paimon.md § 8.6, § 9.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.merging import OrderKeys, encode_order_keys, search_keys
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions, deleted_positions
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.reading.data_files import DataFile, open_data_file
from skerry.paimon.values.binary_reading import decode_rows
from skerry.table.files.row_access import RowAccess
from skerry.table.predicate import Column
from skerry.table.rows.schema import field_id
from skerry.table.work.read_ahead import SharedCache

__all__ = ["FileRows", "WantedKeys"]

_FOOTER_BYTES: Final = 1 << 16
_KEYS: Final = "keys"


@dataclass(frozen=True, slots=True)
class WantedKeys:
    """Keys to look up.

    Args:
        keys: The keys (of the trimmed primary key), ascending and distinct.
        leading: Those of the first key column alone, which bounds of pages and row groups refer to.
    """

    keys: OrderKeys
    leading: OrderKeys

    @classmethod
    def of(cls, keys: OrderKeys, columns: Sequence[pa.Array], rows: Positions) -> WantedKeys:
        """The keys of some rows.

        Args:
            keys: Keys of all rows.
            columns: The columns that they were made of.
            rows: int64[n] Which, in the order of their keys; no two have the same.
        """
        chosen = keys.take(rows)
        if len(columns) == 1:
            return cls(chosen, chosen)
        return cls(chosen, encode_order_keys([columns[0].take(pa.array(rows))], [False]))

    def __len__(self) -> int:
        return len(self.keys)

    def slice(self, start: int, stop: int) -> WantedKeys:
        """Consecutive ones; a view."""
        return WantedKeys(self.keys.slice(start, stop), self.leading.slice(start, stop))

    def take(self, rows: Positions) -> WantedKeys:
        """Some of them, ascending."""
        if len(rows) == len(self):
            return self
        return WantedKeys(self.keys.take(rows), self.leading.take(rows))


@dataclass(frozen=True)
class FileRows:
    """Random access to the rows of the data files of one partition.

    Args:
        state: The table, with the schema of the rows to return.
        partition: Values of the partition keys as a row with arity.
        cache: Keeps footers, keys and values that were decoded: files never change.
    """

    state: PaimonState
    partition: bytes
    cache: SharedCache = field(repr=False)

    def find(self, file: SplitFile, wanted: WantedKeys) -> tuple[Positions, Positions]:
        """Find records by key.

        Args:
            file: A file of a primary-key table, whose rows are in the order of their keys.
            wanted: The keys.

        Returns:
            int64[n]: which keys are in the file, ascending; and int64[n]: the positions of their rows. Deleted rows
            are left out.

        Raises:
            FormatError: The file is corrupt.
            NotFoundError: It is missing.
        """
        access = self._access(file, self._key_schema)
        lows, highs = self._candidates(access, wanted)
        keys, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for block in np.flatnonzero(lows < highs).tolist():
            low, high = int(lows[block]), int(highs[block])
            stored = self._keys(file, access, block)
            places, is_equal = search_keys(stored, wanted.keys.slice(low, high))
            keys.append(low + np.flatnonzero(is_equal))
            positions.append(int(access.edges[block]) + places[is_equal])
        found, rows = np.concatenate(keys), np.concatenate(positions)
        deleted = self.deleted(file)
        if len(deleted) and len(rows):
            alive = ~np.isin(rows, deleted, kind="sort")
            found, rows = found[alive], rows[alive]
        if (np.diff(found) <= 0).any():
            raise FormatError("the rows are not in the order of their keys", location=file.location)
        return found, rows

    def take(self, file: SplitFile, schema: pa.Schema, rows: Positions) -> pa.RecordBatch:
        """Read rows.

        Args:
            file: The file.
            schema: Columns of the table, and system columns.
            rows: int64[n] Their positions, in any order.
        """
        opened = self._open(file, schema)
        order = np.argsort(rows, kind="stable")
        batch = opened.converted(self._access(file, schema).take(rows[order]))
        if (order[1:] < order[:-1]).any():
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            batch = batch.take(pa.array(back))
        return batch

    def deleted(self, file: SplitFile) -> Positions:
        """int64[n] The positions of a file's deleted rows, ascending."""
        if file.deletion_vector is None:
            return deleted_positions(file, self.state.storage.read)
        key = ("deleted", file.location, file.deletion_vector)
        return self.cache.get(key, lambda: deleted_positions(file, self.state.storage.read), lambda found: found.nbytes)

    # ---- files ----

    def _open(self, file: SplitFile, schema: pa.Schema) -> DataFile:
        def opened() -> DataFile:
            then = self.state.schema_by_id(file.schema_id)
            return open_data_file(self.state.storage, file, then, self.state.schema, schema, self._constants)

        return self.cache.get(("file", *self._identity(file, schema)), opened, lambda _: _FOOTER_BYTES)

    def _access(self, file: SplitFile, schema: pa.Schema) -> RowAccess:
        return RowAccess(self._open(file, schema).stored, ("rows", *self._identity(file, schema)), self.cache)

    def _identity(self, file: SplitFile, schema: pa.Schema) -> tuple[object, ...]:
        """What distinguishes columns of a file from others."""
        columns = tuple((field.name, field_id(field), field.type) for field in schema)
        return file.location, self.state.schema.id, columns

    @cached_property
    def _constants(self) -> Mapping[int, pa.Scalar]:
        keys = self.state.schema.partition_fields
        columns = decode_rows([key.type for key in keys], [self.partition]) if keys else []
        return {key.id: column[0] for key, column in zip(keys, columns, strict=True)}

    # ---- keys ----

    @cached_property
    def _key_schema(self) -> pa.Schema:
        table = self.state.arrow_schema
        return pa.schema([table.field(name) for name in self.state.schema.trimmed_primary_keys])

    def _candidates(self, access: RowAccess, wanted: WantedKeys) -> tuple[Positions, Positions]:
        """int64[blocks]: the first key that each block can hold, and the one after the last."""
        count = len(access.edges) - 1
        lows, highs = np.zeros(count, np.int64), np.full(count, len(wanted), np.int64)
        leading = self._key_schema.field(0)
        bounds = access.bounds(Column(field_id(leading), (leading.name,), leading.type))
        if bounds is None:
            return lows, highs
        known = np.flatnonzero(np.asarray(bounds.lower.is_valid()) & np.asarray(bounds.upper.is_valid()))
        if len(known):
            lower, upper = (side.take(pa.array(known)).cast(leading.type) for side in (bounds.lower, bounds.upper))
            lows[known], _ = search_keys(wanted.leading, encode_order_keys([lower], [False]))
            highs[known], _ = search_keys(wanted.leading, encode_order_keys([upper], [False]), after=True)
        return lows, highs

    def _keys(self, file: SplitFile, access: RowAccess, block: int) -> OrderKeys:
        """The keys of a block."""

        def decoded() -> OrderKeys:
            start, stop = int(access.edges[block]), int(access.edges[block + 1])
            batch = self._open(file, self._key_schema).converted(access.slice(start, stop))
            columns = [batch.column(name) for name in self._key_schema.names]
            for name, column in zip(self._key_schema.names, columns, strict=True):
                if column.null_count:
                    raise FormatError(
                        f"a record has a null in key column {name!r}",
                        location=file.location,
                        rule="docs/formats/paimon.md § 8.5",
                    )
            return encode_order_keys(columns, [False] * len(columns)).compact()

        key = (_KEYS, file.location, self.state.schema.id, block)
        return self.cache.get(key, decoded, lambda keys: keys.size_bytes)
