"""Reading Avro files into Arrow, column by column, without an object per value."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from skerry.avro import machine
from skerry.avro.arrays import Arena
from skerry.avro.container import Block, Header, decode_block, decode_blocks, decode_header
from skerry.avro.program import Program, compile_program
from skerry.errors import FormatError, SkerryError, UnsupportedError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["read_batches", "read_columns", "read_header"]

MAX_BLOCK_BYTES: Final = 64 << 20
"""Records of one block may take this many bytes, and 32 times those in the file: writers end a block at 16 or 64 kB, or
with the record that goes beyond."""
MAX_BLOCK_EXPANSION: Final = 32
MAX_COLUMN_BYTES: Final = 128 << 20
"""Columns of one batch, and all those of `read_columns`, may take this many bytes, and 128 times those in the file. A
null record of many fields takes one byte in the file, and room for each field in its column."""
MAX_COLUMN_EXPANSION: Final = 128
_BATCH_BYTES: Final = 64 << 20
MAX_EMPTY_ITEMS: Final = 1 << 24
"""Most records and items of a batch that may take no bytes; nothing in the file bounds their number."""


def read_header(data: Buffer, *, location: str | None = None) -> Header:
    """Decode the head of an Avro file: schema, codec and metadata.

    Args:
        data: The file, or enough of its beginning.
        location: The file, for messages.

    Returns:
        The header.

    Raises:
        FormatError: The bytes are not the head of an Avro file.

    Spec: Avro spec, Object Container Files.
    """
    return decode_header(memoryview(data).cast("B"), location=location)


def read_columns(
    data: Buffer,
    columns: Sequence[str | int] | None = None,
    *,
    ignore_missing: bool = False,
    location: str | None = None,
) -> pa.RecordBatch:
    """Decode the records of an Avro file into columns.

    Records become structs, arrays lists; maps, and the arrays of key-value records that Iceberg calls maps, become
    maps. Unions with null become nullable columns. Logical types become Arrow's (decimals of more than 76 digits stay
    bytes, text UUIDs stay text), enums become dictionaries. Fields carry the schema's `field-id` as `PARQUET:field_id`.

    However well a file is compressed, its columns take at most 128 MiB and 128 times its bytes; in practice they take
    about twice as much as the records, of which some 64 MiB are held at a time. All columns are views of one block of
    memory, which lives as long as any of them.

    Args:
        data: The whole file.
        columns: The fields to decode, in any order: by dotted name (`data_file.file_path`) or by field id, each with
            all that is in it. Names lead into records, also within arrays; maps are decoded as a whole. None for all.
        ignore_missing: Whether names and ids that the schema lacks are ignored.
        location: The file, for messages.

    Returns:
        The chosen columns in the order of the schema, one row for each record.

    Raises:
        FormatError: The bytes break a rule of Avro; names the byte.
        SchemaError: The schema has no field of that name or id.
        UnsupportedError: The codec is unknown, a chosen field is a union of several types, the schema is recursive or
            no record, or the columns need more memory than the bounds allow.

    Spec: Avro spec, Binary Encoding, Object Container Files, Logical Types.
    """
    file = _File.open(data, columns, ignore_missing, location)
    left = MAX_COLUMN_BYTES + MAX_COLUMN_EXPANSION * len(file.data)
    batches = []
    for batch in file.batches(_BATCH_BYTES):
        left -= batch.get_total_buffer_size()
        if left < 0:
            raise UnsupportedError(
                f"columns of an Avro file of {len(file.data)} bytes would take more than "
                f"{MAX_COLUMN_BYTES + MAX_COLUMN_EXPANSION * len(file.data)} bytes",
                location=location,
            )
        batches.append(batch)
    if len(batches) == 1:
        return batches[0]
    return pa.concat_batches(batches) if batches else file.batch([], *file.counted([]))


def read_batches(
    data: Buffer,
    columns: Sequence[str | int] | None = None,
    *,
    batch_bytes: int = _BATCH_BYTES,
    ignore_missing: bool = False,
    location: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Decode the records of an Avro file into columns, some blocks at a time; for files that are large.

    Args:
        data: The whole file.
        columns: The fields to decode, see `read_columns`.
        batch_bytes: A batch ends with the block that reaches this many bytes of decompressed records; earlier where its
            columns would take more than 128 MiB.
        ignore_missing: Whether names and ids that the schema lacks are ignored.
        location: The file, for messages.

    Yields:
        Batches in the order of the file; none of a file without blocks.

    Raises:
        FormatError: As `read_columns`.
        SchemaError: As `read_columns`.
        UnsupportedError: As `read_columns`.
    """
    return _File.open(data, columns, ignore_missing, location).batches(batch_bytes)


@dataclass(frozen=True, slots=True)
class _Records:
    """The decompressed records of a block."""

    block: Block
    data: bytes | memoryview


@dataclass(frozen=True, slots=True)
class _File:
    """An Avro file in memory and the program for it."""

    data: memoryview
    header: Header
    program: Program
    location: str | None

    @classmethod
    def open(
        cls, data: Buffer, columns: Sequence[str | int] | None, ignore_missing: bool, location: str | None
    ) -> _File:
        view = memoryview(data).cast("B")
        header = decode_header(view, location=location)
        try:
            program = compile_program(header.schema_json, None if columns is None else tuple(columns), ignore_missing)
        except SkerryError as error:
            error.location = location
            raise
        return cls(view, header, program, location)

    def batches(self, batch_bytes: int) -> Iterator[pa.RecordBatch]:
        """Decode the blocks, some at a time."""
        pending: list[_Records] = []
        size = 0
        for records in self.blocks():
            pending.append(records)
            size += len(records.data)
            if size >= batch_bytes:
                yield from self.divided(pending)
                pending, size = [], 0
        if pending:
            yield from self.divided(pending)

    def blocks(self) -> Iterator[_Records]:
        """Decompress the blocks one by one."""
        for block in decode_blocks(self.data, self.header, location=self.location):
            max_bytes = MAX_BLOCK_BYTES + MAX_BLOCK_EXPANSION * block.size
            records = decode_block(self.data, block, self.header.codec, max_bytes=max_bytes, location=self.location)
            yield _Records(block, records)

    def divided(self, blocks: list[_Records]) -> Iterator[pa.RecordBatch]:
        """Decode blocks into one batch, or into several where it would take too much memory."""
        data, table, counts = self.counted(blocks)
        if len(blocks) > 1 and Arena.measure(self.program.slots, counts) > _most_columns(blocks):
            middle = len(blocks) // 2
            yield from self.divided(blocks[:middle])
            yield from self.divided(blocks[middle:])
        else:
            yield self.batch(blocks, data, table, counts)

    def counted(self, blocks: list[_Records]) -> tuple[Any, Any, np.ndarray[Any, np.dtype[np.int64]]]:
        """The records of blocks, the table of blocks, and how many values there are."""
        data, table = self.joined(blocks)
        return data, table, self.run(self.program.counting, data, table, blocks, None)

    def batch(
        self, blocks: list[_Records], data: Any, table: Any, counts: np.ndarray[Any, np.dtype[np.int64]]
    ) -> pa.RecordBatch:
        """Decode blocks into one batch."""
        program = self.program
        try:
            arena = Arena.allocate(program.slots, counts, _most_columns(blocks))
            self.run(program.storing, data, table, blocks, arena)
            arrays = arena.arrays(program.columns)
        except (FormatError, UnsupportedError) as error:
            error.location = self.location
            raise
        if program.is_optional:
            return self.unpacked(arrays[0])
        if not arrays:
            rows = pa.Array.from_buffers(pa.struct([]), int(counts[machine.RECORDS]), [None], children=[])
            return pa.RecordBatch.from_struct_array(rows)
        return pa.RecordBatch.from_arrays(arrays, schema=program.schema)

    def unpacked(self, records: pa.StructArray) -> pa.RecordBatch:
        """The columns of records that may be null by the schema."""
        if records.null_count:
            raise FormatError(
                f"record {records.is_null().index(True)} is null",
                location=self.location,
                rule="Avro spec, Object Container Files",
            )
        return pa.RecordBatch.from_struct_array(records)

    def run(
        self, code: Any, data: Any, table: Any, blocks: list[_Records], arena: Arena | None
    ) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Run one of the programs; returns the counters."""
        counters = np.zeros(self.program.counters, dtype=np.int64)
        counters[machine.EMPTY_ITEMS] = MAX_EMPTY_ITEMS
        failure = np.zeros(3, dtype=np.int64)
        stack = np.zeros((self.program.depth, 2), dtype=np.int64)
        memory, bases = (_NO_MEMORY, _NO_BASES) if arena is None else (arena.memory, arena.bases)
        error = machine.run_program(
            data, table, self.program.least_bytes, code, counters, bases,
            memory, memory.view(np.int32), memory.view(np.int64), stack, failure,
        )  # fmt: skip
        if error:
            paths = self.program.counting_paths if arena is None else self.program.storing_paths
            position, instruction, index = failure.tolist()
            within = position - int(table[index, 1])
            raise self.error(error, paths[instruction], blocks[index].block, within)
        return counters

    def joined(self, blocks: list[_Records]) -> tuple[Any, Any]:
        """The records of blocks in one array, and the table of blocks that the machine takes."""
        table = np.zeros((len(blocks), 3), dtype=np.int64)
        table[:, 0] = [records.block.records for records in blocks]
        sizes = np.array([len(records.data) for records in blocks], dtype=np.int64)
        if self.header.codec == "null":
            data: Any = self.data
            table[:, 1] = [records.block.offset for records in blocks]
            table[:, 2] = table[:, 1] + sizes
        else:
            data = blocks[0].data if len(blocks) == 1 else b"".join(records.data for records in blocks)
            table[:, 2] = np.cumsum(sizes)
            table[:, 1] = table[:, 2] - sizes
        return np.frombuffer(data, dtype=np.uint8), table

    def error(self, code: int, path: str, block: Block, within: int) -> SkerryError:
        """What the machine has found at byte `within` of the records of a block, as an exception."""
        where = f"Avro field {path!r}" if path else "Avro record"
        offset = block.offset
        if self.header.codec == "null":
            offset += within
        else:
            where += f" at byte {within} of the decompressed block"
        kind = UnsupportedError if code == machine.TOO_MANY_EMPTY else FormatError
        problem = f"{where}: {_PROBLEMS[code]}"
        return kind(problem, location=self.location, offset=offset, rule="Avro spec, Binary Encoding")


def _most_columns(blocks: list[_Records]) -> int:
    """The most bytes that columns of these blocks may take, and what aligns them."""
    return MAX_COLUMN_BYTES + MAX_COLUMN_EXPANSION * sum(records.block.size for records in blocks)


_NO_MEMORY: Final = np.zeros(0, dtype=np.uint8)
_NO_BASES: Final = np.zeros(0, dtype=np.int64)
_PROBLEMS: Final = {
    machine.TRUNCATED: "the block ends within the value",
    machine.OVERFLOW: "the integer does not fit 64 bits",
    machine.VALUE_RANGE: "the value is beyond what its type can hold",
    machine.NEGATIVE_LENGTH: "the length is negative",
    machine.BRANCH_RANGE: "the union has no such branch",
    machine.BOOLEAN_RANGE: "a boolean is neither 0 nor 1",
    machine.ITEM_COUNT: "more items are claimed than the block can hold",
    machine.BLOCK_SIZE: "the items do not take the bytes that they claim",
    machine.TOO_MANY_EMPTY: f"more than {MAX_EMPTY_ITEMS} items or records without bytes",
    machine.NOT_UTF8: "the string is not UTF-8",
    machine.DECIMAL_RANGE: "the decimal does not fit its type",
    machine.RECORD_COUNT: "more records are claimed than the block can hold",
    machine.TRAILING_BYTES: "the block goes on after its last record",
}
