"""Single rows of data files: only what can hold the wanted keys and rows is read, and kept decoded in bounded memory.

Spec: docs/formats/paimon.md § 8.6, § 9.3.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.paimon.merging import OrderKeys, encode_order_keys, search_keys
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.deletion_positions import Positions, deleted_positions
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.reading.data_files import KIND, DataFile, open_data_file
from skerry.paimon.reading.pieces import ADDED
from skerry.paimon.values.binary_reading import decode_rows
from skerry.table.files.row_access import RowAccess, row_access
from skerry.table.predicate import Column, evaluate
from skerry.table.rows.schema import field_id
from skerry.table.work.read_ahead import SharedCache

__all__ = ["FileRows", "WantedKeys"]

_FOOTER_BYTES: Final = 1 << 16
_KEYS: Final = "keys"
_BLOCKS_AT_ONCE: Final = 64


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
        keeps_values: Whether it keeps values; else, of pages with few wanted rows, only these rows are decoded.
    """

    state: PaimonState
    partition: bytes
    cache: SharedCache = field(repr=False)
    keeps_values: bool = True

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
        lows, highs = self._candidates(file, access, wanted)
        keys, positions = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        blocks = np.flatnonzero(lows < highs)
        for block, stored in zip(blocks.tolist(), self._keys(file, access, blocks), strict=True):
            low, high = int(lows[block]), int(highs[block])
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
        order = np.argsort(rows, kind="stable")
        batch = self._taken(file, schema, rows[order])
        if (order[1:] < order[:-1]).any():
            back = np.empty(len(order), np.int64)
            back[order] = np.arange(len(order))
            batch = batch.take(pa.array(back))
        return batch

    def _taken(self, file: SplitFile, schema: pa.Schema, rows: Positions) -> pa.RecordBatch:
        """Rows in ascending order; nested columns, which are not read page by page, apart from the others."""
        columns: dict[str, pa.Array] = {}
        for is_nested in (False, True):
            part = pa.schema([column for column in schema if pa.types.is_nested(column.type) is is_nested])
            if len(part):
                opened = self._open(file, part)
                if self.keeps_values or (np.diff(rows) == 0).any():
                    batch = opened.converted(self._access(file, part).take(rows))
                else:
                    batch = _listed(opened, rows)
                columns |= dict(zip(part.names, batch.columns, strict=True))
        return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)

    def only_adds(self, file: SplitFile) -> bool:
        """Whether statistics in a file show that it has no records of kind -U and -D."""
        opened = self._open(file, pa.schema([KIND]))
        return bool(evaluate(ADDED, opened.metrics, len(opened.parts)).must.all())

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
        stored = self._open(file, schema).stored
        return row_access(stored, file.location, self._identity(file, schema), self.cache)

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

    def _candidates(self, file: SplitFile, access: RowAccess, wanted: WantedKeys) -> tuple[Positions, Positions]:
        """int64[blocks]: the first key that each block can hold, and the one after the last."""
        count = len(access.edges) - 1
        lows, highs = np.zeros(count, np.int64), np.full(count, len(wanted), np.int64)
        known, lower, upper = self.cache.get(
            ("bounds", file.location, self.state.schema.id),
            partial(self._bounds, access),
            lambda bounds: int(bounds[0].nbytes + bounds[1].size_bytes + bounds[2].size_bytes),
        )
        lows[known], _ = search_keys(wanted.leading, lower)
        highs[known], _ = search_keys(wanted.leading, upper, after=True)
        return lows, highs

    def _bounds(self, access: RowAccess) -> tuple[Positions, OrderKeys, OrderKeys]:
        """The blocks with known bounds of the first key column, and these."""
        leading = self._key_schema.field(0)
        bounds = access.bounds(Column(field_id(leading), (leading.name,), leading.type))
        if bounds is None:
            bounds = pa.nulls(0, leading.type), pa.nulls(0, leading.type)
        known = np.flatnonzero(np.logical_and(*(np.asarray(side.is_valid()) for side in bounds)))
        type_ = pa.binary() if pa.types.is_string(leading.type) else leading.type
        lower, upper = (encode_order_keys([side.take(pa.array(known)).cast(type_)], [False]) for side in bounds)
        return known, lower.compact(), upper.compact()

    def _keys(self, file: SplitFile, access: RowAccess, blocks: Positions) -> Iterator[OrderKeys]:
        """The keys of blocks; those that are not known are decoded many at a time."""
        missing = np.array([self.cache.known(self._key_name(file, block)) is None for block in blocks.tolist()], bool)
        start = 0
        while start < len(blocks):
            stop = start + 1
            while (
                stop < min(len(blocks), start + _BLOCKS_AT_ONCE) and missing[start] and _follows(blocks, missing, stop)
            ):
                stop += 1
            run = blocks[start:stop]
            decoded = self._decoded(file, access, run) if missing[start] else [None] * len(run)
            for block, keys in zip(run.tolist(), decoded, strict=True):
                yield self.cache.get(
                    self._key_name(file, block),
                    partial(self._computed, file, access, block, keys),
                    lambda found: found.size_bytes,
                )
            start = stop

    def _computed(self, file: SplitFile, access: RowAccess, block: int, keys: OrderKeys | None) -> OrderKeys:
        return keys if keys is not None else self._decoded(file, access, np.array([block]))[0]

    def _key_name(self, file: SplitFile, block: int) -> tuple[object, ...]:
        return _KEYS, file.location, self.state.schema.id, block

    def _decoded(self, file: SplitFile, access: RowAccess, blocks: Positions) -> list[OrderKeys]:
        """The keys of consecutive blocks."""
        edges = access.edges[blocks[0] : blocks[-1] + 2]
        batch = self._open(file, self._key_schema).converted(access.slice(int(edges[0]), int(edges[-1])))
        columns = [batch.column(name) for name in self._key_schema.names]
        for name, column in zip(self._key_schema.names, columns, strict=True):
            if column.null_count:
                raise FormatError(
                    f"a record has a null in key column {name!r}",
                    location=file.location,
                    rule="docs/formats/paimon.md § 8.5",
                )
        keys = encode_order_keys(columns, [False] * len(columns))
        return [keys.slice(start, stop).compact() for start, stop in itertools.pairwise((edges - edges[0]).tolist())]


def _listed(opened: DataFile, rows: Positions) -> pa.RecordBatch:
    """Distinct rows, ascending."""
    parts = []
    for part in opened.parts:
        start, stop = np.searchsorted(rows, [part.first_row, part.first_row + part.row_count])
        if start < stop:
            parts += [batch for batch, _ in opened.stored_rows(part, rows[start:stop], int(stop - start))]
    return pa.concat_batches(parts)


def _follows(blocks: Positions, missing: npt.NDArray[np.bool_], place: int) -> bool:
    """Whether a block is missing, too, and comes after the one before."""
    return bool(missing[place] and blocks[place] == blocks[place - 1] + 1)
