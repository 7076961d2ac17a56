"""Compiling a schema and a choice of its fields into two programs for the machine: one that counts, one that stores."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa

from skerry.avro import machine
from skerry.avro.columns import Column, ColumnPlan, Slot, choose_fields, decimal_bytes, entries, is_binary, join
from skerry.avro.schema import (
    Array,
    AvroType,
    Enumeration,
    Fixed,
    Map,
    Primitive,
    PrimitiveKind,
    Record,
    RecordField,
    Union,
    decode_schema,
    describe,
    is_null,
    record_of,
)
from skerry.errors import UnsupportedError

__all__ = ["Program", "compile_program"]


@dataclass(frozen=True, slots=True)
class Program:
    """A schema and a choice of its columns, compiled.

    Args:
        columns: The chosen columns of the top record.
        is_optional: Whether records may be null; then there is one column, of the records.
        schema: Their Arrow schema.
        least_bytes: The fewest bytes that a record can take.
        counting: int64[n, 6] The program that counts.
        storing: int64[m, 6] The program that stores.
        counting_paths: The field that each instruction of `counting` reads.
        storing_paths: The field that each instruction of `storing` reads.
        slots: The slots of the arena.
        counters: Number of counters.
        depth: How many arrays may be open at a time.
    """

    columns: tuple[Column, ...]
    is_optional: bool
    schema: pa.Schema
    least_bytes: int
    counting: np.ndarray[Any, np.dtype[np.int64]]
    storing: np.ndarray[Any, np.dtype[np.int64]]
    counting_paths: tuple[str, ...]
    storing_paths: tuple[str, ...]
    slots: tuple[Slot, ...]
    counters: int
    depth: int


@functools.lru_cache(maxsize=64)
def compile_program(
    schema_json: str, columns: tuple[str | int, ...] | None = None, ignore_missing: bool = False
) -> Program:
    """Compile a schema.

    Args:
        schema_json: The schema; its top must be a record, or the union of one with null.
        columns: Fields to decode, by dotted name or by field id; None for all. See `skerry.avro.read_columns`.
        ignore_missing: Whether to pass over names and ids that the schema lacks.

    Returns:
        The program.

    Raises:
        FormatError: The schema is none.
        SchemaError: It has no field of that name or id.
        UnsupportedError: It is not a record, or a chosen column is a union of several types.
    """
    top = decode_schema(schema_json)
    record = record_of(top)
    if record is None:
        raise UnsupportedError(f"Avro file of {describe(top)} values; only records have columns")
    choice = choose_fields(record, columns, ignore_missing=ignore_missing)
    is_optional = record is not top
    if is_optional:  # a union is stored like a record of it
        top, choice = Record("", (RecordField("", top),), top.nodes, top.depth, top.min_bytes), {"": choice}
    assert isinstance(top, Record)
    plan = ColumnPlan()
    chosen = tuple(plan.fields(top, choice, machine.RECORDS, ""))
    counting, storing = _Assembler(stores=False), _Assembler(stores=True)
    for assembler in (counting, storing):
        assembler.record(top, chosen, "")
        assembler.emit("", machine.END)
    return Program(
        columns=chosen,
        is_optional=is_optional,
        schema=pa.schema([column.field for column in chosen]),
        least_bytes=top.min_bytes,
        counting=counting.table(),
        storing=storing.table(),
        counting_paths=tuple(counting.paths),
        storing_paths=tuple(storing.paths),
        slots=tuple(plan.slots),
        counters=plan.counters,
        depth=max(counting.max_depth, storing.max_depth),
    )


@dataclass(slots=True)
class _Assembler:
    """Writes one program. `stores`: whether it stores the chosen columns or only counts for them."""

    stores: bool
    rows: list[list[int]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    depth: int = 0
    max_depth: int = 1
    _sealed: int = 0  # instructions before this may not grow: something jumps to the one after them

    def table(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        table = np.zeros((len(self.rows), 6), dtype=np.int64)
        for i, row in enumerate(self.rows):
            table[i, : len(row)] = row
        table.flags.writeable = False
        return table

    def emit(self, path: str, operation: int, *operands: int) -> int:
        """Add an instruction; skipping values is joined with what was skipped just before."""
        if operation in (machine.LONGS, machine.BYTES):
            if operands[0] == 0:
                return len(self.rows)
            if len(self.rows) > self._sealed and self.rows[-1][0] == operation:
                self.rows[-1][1] += operands[0]
                return len(self.rows) - 1
        self.rows.append([operation, *operands])
        self.paths.append(path)
        return len(self.rows) - 1

    def target(self) -> int:
        """The next instruction, as the target of a jump."""
        self._sealed = len(self.rows)
        return self._sealed

    def record(self, record: Record, columns: Iterable[Column], path: str) -> None:
        by_name = {column.field.name: column for column in columns}
        for entry in record.fields:
            self.value(entry.type, by_name.get(entry.name), join(path, entry.name))

    def value(self, avro_type: AvroType, column: Column | None, path: str) -> None:
        if isinstance(avro_type, Union):
            self._union(avro_type, column, path)
        elif isinstance(avro_type, Record):
            self.record(avro_type, () if column is None else column.children, path)
        elif isinstance(avro_type, Array | Map):
            self._items(avro_type, column, path)
        elif self.stores and column is not None:
            self._store(avro_type, column, path)
        else:
            self._count(avro_type, column, path)

    def _union(self, union: Union, column: Column | None, path: str) -> None:
        if union.optional is not None:
            self._optional(union, column, path)
            return
        self.emit(path, machine.BRANCHES, len(union.branches))
        jumps = [self.emit(path, machine.JUMP, 0) for _ in union.branches]
        ends = []
        for jump, branch in zip(jumps, union.branches, strict=True):
            self.rows[jump][1] = self.target()
            self.value(branch, column, path)
            ends.append(self.emit(path, machine.JUMP, 0))
        for end in ends:
            self.rows[end][1] = self.target()

    def _optional(self, union: Union, column: Column | None, path: str) -> None:
        assert union.optional is not None
        stored = column if self.stores else None
        validity, domain = (machine.NO_SLOT, machine.UNUSED) if stored is None else (stored.validity, stored.domain)
        nullable = self.emit(path, machine.NULLABLE, union.null_branch, validity, domain, 0)
        self.target()
        self.value(union.optional, column, path)
        marks = [] if stored is None else list(_marks(stored))
        if not marks:
            self.rows[nullable][4] = self.target()
            return
        jump = self.emit(path, machine.JUMP, 0)
        self.rows[nullable][4] = self.target()
        for mark in marks:
            self.emit(path, machine.MARK_END, *mark)
        self.rows[jump][1] = self.target()

    def _items(self, source: Array | Map, column: Column | None, path: str) -> None:
        stored = column if self.stores else None
        counter = machine.UNUSED if column is None or self.stores else column.counter
        domain = machine.UNUSED if stored is None else stored.counter
        fields = entries(source)
        columns = (None,) * len(fields) if column is None else column.children
        least = sum(item.type.min_bytes for item in fields)
        longs = [_longs(item.type) for item in fields]
        if stored is None and None not in longs and sum(filter(None, longs)) > 0:
            self.emit(path, machine.LONGS_ITEMS, sum(filter(None, longs)), counter)
            return
        depth, self.depth = self.depth, self.depth + 1
        self.max_depth = max(self.max_depth, self.depth)
        begin = self.emit(path, machine.BEGIN_ITEMS, depth, least, counter, 0)
        first = self.target()
        for item, child in zip(fields, columns, strict=True):
            self.value(item.type, child, f"{path}.{item.name}")
        self.emit(path, machine.NEXT_ITEM, depth, domain, first, begin)
        self.rows[begin][4] = self.target()
        self.depth = depth
        if stored is not None:
            self.emit(path, machine.MARK_END, stored.slots[0], stored.domain, stored.counter)

    def _count(self, source: Primitive | Fixed | Enumeration, column: Column | None, path: str) -> None:
        if isinstance(source, Fixed):
            self.emit(path, machine.BYTES, source.size)
        elif isinstance(source, Enumeration) or source.kind in (PrimitiveKind.INT, PrimitiveKind.LONG):
            self.emit(path, machine.LONGS, 1)
        elif source.kind in (PrimitiveKind.BYTES, PrimitiveKind.STRING):
            self.emit(path, machine.BINARY, machine.UNUSED if column is None else column.counter)
        else:
            self.emit(path, machine.BYTES, source.min_bytes)

    def _store(self, source: Primitive | Fixed | Enumeration, column: Column, path: str) -> None:
        if is_null(source) or (isinstance(source, Fixed) and source.size == 0):
            return  # so that values without bytes cost no time: nothing but a constant bounds how many there are
        where = (column.slots[0], column.domain)
        width = decimal_bytes(source)
        if isinstance(source, Enumeration):
            self.emit(path, machine.INT, *where, 0, len(source.symbols) - 1)
        elif isinstance(source, Fixed):
            if width is not None:
                self.emit(path, machine.FIXED_DECIMAL, *where, width, source.size)
            else:
                self.emit(path, machine.COPY, *where, source.size)
        elif width is not None:
            self.emit(path, machine.DECIMAL, *where, width)
        elif is_binary(source):
            copy = machine.COPY_STRING if source.kind is PrimitiveKind.STRING else machine.COPY_BINARY
            self.emit(path, copy, *where, column.counter, column.slots[1])
        elif source.kind is PrimitiveKind.BOOLEAN:
            self.emit(path, machine.BOOLEAN, *where)
        elif source.kind in (PrimitiveKind.INT, PrimitiveKind.LONG):
            bits, operation = (32, machine.INT) if source.kind is PrimitiveKind.INT else (64, machine.LONG)
            least, most = -1 << bits - 1, (1 << bits - 1) - 1
            if source.logical is not None and source.logical.name in _TICKS_A_DAY:
                least, most = 0, _TICKS_A_DAY[source.logical.name] - 1
            self.emit(path, operation, *where, least, most)
        else:
            self.emit(path, machine.COPY, *where, source.min_bytes)


_TICKS_A_DAY: Final = {"time-millis": 86_400_000, "time-micros": 86_400_000_000}


def _marks(column: Column) -> Iterable[tuple[int, int, int]]:
    """The offsets that a null must write: of the column itself, or of what is below it in the same rows."""
    if isinstance(column.source, Record):
        for child in column.children:
            yield from _marks(child)
    elif column.counter != machine.UNUSED:
        yield column.slots[0], column.domain, column.counter


def _longs(avro_type: AvroType) -> int | None:
    """How many varints a value is made of, None if of other things too."""
    if isinstance(avro_type, Record):
        counts = [_longs(entry.type) for entry in avro_type.fields]
        return None if None in counts else sum(filter(None, counts))
    if isinstance(avro_type, Primitive) and avro_type.kind in (PrimitiveKind.INT, PrimitiveKind.LONG):
        return 1
    return 1 if isinstance(avro_type, Enumeration) else None
