"""The source of a merge in files, for tasks in other processes.

The rows are written once, by the tasks that compute them, as Arrow batches in shared storage. A task that looks for
keys reads those columns that it needs, once per process; a task that writes rows reads its part of the batches. So
tasks are small however large the source is, and no process needs all of its rows.
"""

from __future__ import annotations

import functools
import itertools
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from skerry.encryption import decrypt, encrypt
from skerry.storage import Storage, join
from skerry.table.merging.facts import KeyFacts, key_facts
from skerry.table.merging.rules import MergeSource
from skerry.table.merging.source import index_source
from skerry.table.owned_files import OwnedFiles
from skerry.table.rows.incoming import open_stream
from skerry.table.work.remembered import Remembered
from skerry.table.work.tasks import Executor

__all__ = ["LocalRows", "Pack", "RemoteRows", "StagedPart", "StagedRows", "StagedSource", "stage", "stage_part"]

Result = TypeVar("Result")

_KEY_BYTES = 32

_BATCH_ROWS = 1 << 17
_BATCH_BYTES = 32 << 20
_LEAST_PACK_BYTES = 32 << 20
_MOST_PACK_BYTES = 512 << 20
_GOOD_PACKS = 8
_MOST_VALUES = 100_000
"""Indexes are asked for at most so many keys, as the driver gets them."""


class RemoteRows(ABC):
    """Rows that tasks read from files, and that other processes may have, such as a frame of Spark."""

    @abstractmethod
    def each(self, write: Callable[[Iterator[pa.RecordBatch]], Result]) -> list[Result]:
        """Run a picklable function on the rows of every part, where they are; its results in the order of the parts."""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns."""

    @abstractmethod
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """All rows in this process, for work that needs them here."""


class LocalRows(RemoteRows):
    """Rows of this process.

    Args:
        data: Anything that `open_stream` takes.
    """

    def __init__(self, data: Any) -> None:
        self._stream = open_stream(data)

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._stream.schema

    def each(self, write: Callable[[Iterator[pa.RecordBatch]], Result]) -> list[Result]:
        """Run the function on all rows."""
        return [write(iter(self._stream))]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._stream.__arrow_c_stream__(requested_schema)


@dataclass(frozen=True, slots=True)
class StagedPart:
    """A file of rows.

    Args:
        location: An Arrow file; if it is encrypted, an encrypted Arrow stream for each batch.
        schema: The columns.
        batches: Rows and bytes of each batch.
        secret: The key of an encrypted file.
        edges: Where the batches of an encrypted file begin, and where the last ends.
    """

    location: str
    schema: pa.Schema
    batches: tuple[tuple[int, int], ...]
    secret: bytes | None = field(default=None, repr=False)
    edges: tuple[int, ...] = ()

    def read(self, storage: Storage, columns: Sequence[str]) -> pa.Table:
        """Some columns of all rows."""
        if self.secret is not None:
            batches = (self.batch(storage, number).select(columns) for number in range(len(self.batches)))
            return pa.Table.from_batches(batches)
        options = pa.ipc.IpcReadOptions(included_fields=[self.schema.names.index(name) for name in columns])
        with storage.open_input(self.location) as file:
            return pa.ipc.open_file(file, options=options).read_all().select(columns)

    def batch(self, storage: Storage, number: int) -> pa.RecordBatch:
        """A batch."""
        if self.secret is None:
            with storage.open_input(self.location) as file:
                return pa.ipc.open_file(file).get_batch(number)
        start, end = self.edges[number : number + 2]
        data = decrypt(self.secret, storage.read_range(self.location, start, end - start))
        return pa.ipc.open_stream(data).read_next_batch()


@dataclass(frozen=True, slots=True)
class Pack:
    """Consecutive batches that one task writes.

    Args:
        start: The number of the first row.
        stop: The number of the last row, plus 1.
        batches: File and number of each batch.
    """

    start: int
    stop: int
    batches: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class StagedRows:
    """Rows in files; picklable.

    Args:
        storage: Access to the files.
        folder: A folder for what tasks leave that merge these rows, often that of the files; used by no other merge.
        schema: The columns.
        parts: The files.
    """

    storage: Storage
    folder: str
    schema: pa.Schema
    parts: tuple[StagedPart, ...]

    def __len__(self) -> int:
        return sum(rows for part in self.parts for rows, _ in part.batches)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Some columns of all rows."""
        tables = [part.read(self.storage, columns) for part in self.parts]
        return pa.concat_tables(tables) if tables else self.schema.empty_table().select(columns)

    def of_pack(self, pack: Pack) -> Iterator[pa.RecordBatch]:
        """The rows of a pack, batch by batch."""
        parts = {part.location: part for part in self.parts}
        for location, number in pack.batches:
            yield parts[location].batch(self.storage, number)

    def packs(self, target_bytes: int) -> list[Pack]:
        """Divide the rows among tasks: in parts of a good size for files, unless there would be very few."""
        total = sum(size for part in self.parts for _, size in part.batches)
        most = min(max(total // _GOOD_PACKS, _LEAST_PACK_BYTES), _MOST_PACK_BYTES, max(target_bytes, _LEAST_PACK_BYTES))
        packs: list[Pack] = []
        batches: list[tuple[str, int]] = []
        first = row = packed_bytes = 0
        for part in self.parts:
            for number, (rows, size) in enumerate(part.batches):
                if batches and packed_bytes + size > most:
                    packs.append(Pack(first, row, tuple(batches)))
                    batches, packed_bytes, first = [], 0, row
                batches.append((part.location, number))
                packed_bytes += size
                row += rows
        return [*packs, Pack(first, row, tuple(batches))] if batches else packs


def stage(data: RemoteRows, storage: Storage, folder: str, *, encrypts: bool = False) -> StagedRows:
    """Write the rows of a source to files of a folder."""
    parts = data.each(functools.partial(stage_part, storage, folder, encrypts=encrypts))
    found = tuple(part for part in parts if part is not None)
    return StagedRows(storage, folder, found[0].schema if found else data.schema, found)


def stage_part(
    storage: Storage,
    folder: str,
    batches: Iterable[pa.RecordBatch],
    owned: OwnedFiles | None = None,
    *,
    encrypts: bool = False,
) -> StagedPart | None:
    """Write a part of the rows to a file; None if it has no rows.

    Args:
        storage: Access to the folder.
        folder: The folder.
        batches: The rows.
        owned: Owns the file, unless the caller owns the whole folder.
        encrypts: Whether the file is encrypted, with a key that only the part has: rows of encrypted tables.
    """
    location = join(folder, f"{uuid.uuid4()}.arrow")
    sizes = []
    gathered: Iterator[pa.RecordBatch] = _gathered(batches)
    first = next(gathered, None)
    if first is None:
        return None
    if owned is not None:
        owned.add(location)
    gathered = itertools.chain([first], gathered)
    if encrypts:
        return _encrypted_part(storage, location, first.schema, gathered)
    with storage.open_output(location) as sink, pa.ipc.new_file(sink, first.schema) as writer:
        for batch in gathered:
            writer.write_batch(batch)
            sizes.append((batch.num_rows, batch.nbytes))
    return StagedPart(location, first.schema, tuple(sizes))


def _encrypted_part(
    storage: Storage, location: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> StagedPart:
    secret = os.urandom(_KEY_BYTES)
    sizes: list[tuple[int, int]] = []
    edges = [0]
    with storage.open_output(location) as sink:
        for batch in batches:
            plain = pa.BufferOutputStream()
            with pa.ipc.new_stream(plain, schema) as writer:
                writer.write_batch(batch)
            data = encrypt(secret, plain.getvalue().to_pybytes())
            sink.write(data)
            sizes.append((batch.num_rows, batch.nbytes))
            edges.append(edges[-1] + len(data))
    return StagedPart(location, schema, tuple(sizes), secret, tuple(edges))


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of a good size, none of them empty."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if waiting and (rows + batch.num_rows > _BATCH_ROWS or size + batch.nbytes > _BATCH_BYTES):
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
    if waiting:
        yield pa.concat_batches(waiting)


# As the source of a merge --------------------------------------------------------------------------------------------

_LOADED: Remembered[tuple[object, ...], MergeSource] = Remembered(1)


@dataclass(frozen=True)
class StagedSource:
    """The source of a merge in files: a `MergeSource` for tasks, of which they load what they need; picklable.

    Args:
        staged: The rows.
        on: Names of the key columns.
        table: The columns of the table.
    """

    staged: StagedRows
    on: tuple[str, ...]
    table: pa.Schema

    @functools.cached_property
    def schema(self) -> pa.Schema:
        """The columns, those that the table has too in its types.

        Raises:
            SchemaError: A key column is missing or not primitive, or types do not fit.
        """
        return self.schema_of(self.staged.schema, self.on, self.table)

    @staticmethod
    def schema_of(rows: pa.Schema, on: Sequence[str], table: pa.Schema) -> pa.Schema:
        """The columns of such a source, before there are rows; see `schema`."""
        return index_source(rows.empty_table(), on, table).schema

    def holding(self, columns: Iterable[str]) -> MergeSource:
        """The source with its keys and some columns; a process keeps the one that it has loaded last."""
        names = list(dict.fromkeys((*self.on, *columns)))
        key = (self.staged.folder, *names, self.table.to_string())
        found = _LOADED.find(key)
        if found is None:
            found = _LOADED.keep(key, index_source(self.staged.read(names), self.on, self.table))
        return found

    def for_tasks(self, columns: Iterable[str]) -> StagedSource:
        """The source as it is sent to tasks, which read the columns that they need."""
        return self

    def facts(self, executor: Executor, *, with_values: bool) -> KeyFacts:
        """What planning needs to know about the keys, found by one task."""
        wanted = with_values and len(self.staged) <= _MOST_VALUES
        (facts,) = executor.map(functools.partial(_facts, with_values=wanted), [self])
        return facts

    def of(self, batch: pa.RecordBatch) -> MergeSource:
        """Some of the rows as a source of their own."""
        return index_source(pa.Table.from_batches([batch]), self.on, self.table)

    def parts(self) -> Iterator[MergeSource]:
        """All rows, in several sources."""
        for pack in self.staged.packs(0):
            yield from map(self.of, self.staged.of_pack(pack))


def _facts(source: StagedSource, *, with_values: bool) -> KeyFacts:
    return key_facts(source.holding(()), source.table, with_values=with_values)
