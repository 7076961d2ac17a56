"""Files of many schemas read with the newest one, against rows that are kept by field id in plain Python."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.paimon.metadata.schema import TableSchema, encode_schema
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.arrow_types import arrow_type
from skerry.paimon.values.types import (
    ArrayType,
    AtomicType,
    DataField,
    MapType,
    PaimonType,
    RowType,
    TypeRoot,
    decode_type,
)
from skerry.storage import Storage

WIDER = {
    TypeRoot.TINYINT: "INT",
    TypeRoot.INT: "BIGINT",
    TypeRoot.BIGINT: "STRING",
    TypeRoot.FLOAT: "DOUBLE",
}
ATOMIC = st.sampled_from(["TINYINT", "INT", "BIGINT", "FLOAT", "STRING"]).map(decode_type)


class Evolution:
    """A table in the making: its columns, and the rows of every commit with their values by field id."""

    def __init__(self, folder: Path, file_format: str, keyed: bool) -> None:
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("a", pa.int32())])
        options = {"file.format": file_format, "write-only": "true", **({"bucket": "1"} if keyed else {})}
        key = ["id"] if keyed else []
        self.table = PaimonTable.create(Storage(), str(folder / "t"), schema, primary_key=key, properties=options)
        self.rows: dict[int, dict[int, Any]] = {}
        self.fields = list(self.table.handle.state.schema.fields)
        self.highest = self.table.handle.state.schema.highest_field_id

    def publish(self) -> None:
        """Make the columns the newest schema."""
        old = self.table.handle.state.schema
        new: TableSchema = dataclasses.replace(
            old, id=old.id + 1, fields=tuple(self.fields), highest_field_id=self.highest
        )
        state = self.table.handle.state
        state.storage.write(state.paths.schema(new.id), encode_schema(new))
        self.table.handle.refresh()

    def next_id(self) -> int:
        self.highest += 1
        return self.highest

    def append(self, data: Any, ids: list[int]) -> None:
        columns: dict[str, list[Any]] = {}
        values: dict[int, dict[int, Any]] = {number: {} for number in ids}
        for field in self.fields:
            drawn = ids if field.name == "id" else [self.draw(data, field.type) for _ in ids]
            columns[field.name] = [plain(field.type, value) for value in drawn]
            for number, value in zip(ids, drawn, strict=True):
                values[number][field.id] = value
        self.table.append(pa.table(columns, schema=self.table.schema))
        self.rows.update(values)

    def draw(self, data: Any, type_: PaimonType) -> Any:
        """A value; members of structs are kept by id, so that a value outlives their renaming."""
        if data.draw(st.integers(0, 4)) == 0:
            return None
        match type_:
            case AtomicType(root):
                return data.draw(
                    st.sampled_from([0.5, -2.0])
                    if root in (TypeRoot.FLOAT, TypeRoot.DOUBLE)
                    else st.text("ab", max_size=2)
                    if root is TypeRoot.VARCHAR
                    else st.integers(-5, 5)
                )
            case RowType(fields):
                return {field.id: self.draw(data, field.type) for field in fields}
            case ArrayType(element):
                return [self.draw(data, element) for _ in range(data.draw(st.integers(0, 2)))]
            case MapType(_, value):
                return [(key, self.draw(data, value)) for key in data.draw(st.sets(st.sampled_from("xy")))]
        raise AssertionError(type_)

    def expected(self) -> list[dict[str, Any]]:
        return [
            {field.name: plain(field.type, current(field.type, row.get(field.id))) for field in self.fields}
            for _, row in sorted(self.rows.items())
        ]


def current(type_: PaimonType, value: Any) -> Any:
    """An old value as a type has it now."""
    if value is None:
        return None
    match type_:
        case AtomicType(TypeRoot.VARCHAR):
            return value if isinstance(value, str) else str(value)
        case RowType(fields):
            return {field.id: current(field.type, value.get(field.id)) for field in fields}
        case ArrayType(element):
            return [current(element, part) for part in value]
        case MapType(_, item):
            return [(key, current(item, part)) for key, part in value]
    return value


def plain(type_: PaimonType, value: Any) -> Any:
    """A value as Arrow takes and gives it: members of structs by name."""
    if value is None:
        return None
    match type_:
        case RowType(fields):
            return {field.name: plain(field.type, value[field.id]) for field in fields}
        case ArrayType(element):
            return [plain(element, part) for part in value]
        case MapType(_, item):
            return sorted((key, plain(item, part)) for key, part in value)
    return value


def new_type(data: Any, table: Evolution, depth: int = 0) -> PaimonType:
    kind = data.draw(st.sampled_from(["atom", "row", "list", "map"] if depth < 2 else ["atom"]))
    if kind == "atom":
        return data.draw(ATOMIC)
    if kind == "row":
        names = data.draw(st.lists(st.sampled_from("pq"), min_size=1, max_size=2, unique=True))
        return RowType(tuple(DataField(table.next_id(), name, new_type(data, table, depth + 1)) for name in names))
    if kind == "list":
        return ArrayType(new_type(data, table, depth + 1))
    text = decode_type("STRING NOT NULL")
    return MapType(text, new_type(data, table, depth + 1))


def widened(type_: PaimonType) -> PaimonType:
    match type_:
        case AtomicType(root) if root in WIDER:
            return decode_type(WIDER[root])
        case RowType((first, *others)):
            return RowType((*others, dataclasses.replace(first, name=first.name + "'", type=widened(first.type))))
        case ArrayType(element):
            return ArrayType(widened(element) if isinstance(element, RowType) else element)
        case MapType(key, value):
            return MapType(key, widened(value) if isinstance(value, RowType) else value)
    return type_


def change(data: Any, table: Evolution) -> None:
    """Add, drop, rename, move or widen a column; a name that was dropped may come back as another column."""
    others = [field for field in table.fields if field.name != "id"]
    what = data.draw(st.sampled_from(["add", "add", "drop", "rename", "move", "widen"] if others else ["add"]))
    if what == "add":
        free = [name for name in "abcdef" if name not in {field.name for field in table.fields}]
        if free:
            number = table.next_id()
            table.fields.append(DataField(number, data.draw(st.sampled_from(free)), new_type(data, table)))
        return
    field = data.draw(st.sampled_from(others))
    index = table.fields.index(field)
    if what == "drop":
        del table.fields[index]
    elif what == "rename":
        table.fields[index] = dataclasses.replace(field, name=f"{field.name}{table.table.handle.state.schema.id}")
    elif what == "move":
        table.fields.insert(data.draw(st.integers(0, len(table.fields) - 1)), table.fields.pop(index))
    else:
        table.fields[index] = dataclasses.replace(field, type=widened(field.type))


@pytest.mark.parametrize("keyed", [False, True], ids=["append", "keyed"])
@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@settings(max_examples=6)
@given(data=st.data())
def test_old_files_have_todays_columns(
    tmp_path_factory: pytest.TempPathFactory, file_format: str, keyed: bool, data: Any
) -> None:
    table = Evolution(tmp_path_factory.mktemp("evolution"), file_format, keyed)
    table.append(data, [0, 1, 2])
    for commit in range(1, data.draw(st.integers(2, 4))):
        for _ in range(data.draw(st.integers(1, 3))):
            change(data, table)
        table.publish()
        table.append(data, [2 * commit, 2 * commit + 1, 2 * commit + 2] if keyed else [10 * commit, 10 * commit + 1])
    found = scan(table.table.handle.state).to_arrow()
    assert [field.type for field in found.schema] == [arrow_type(field.type, field.id) for field in table.fields]
    types = {field.name: field.type for field in table.fields}
    rows = [{name: in_order(types[name], value) for name, value in row.items()} for row in found.to_pylist()]
    assert sorted(rows, key=lambda row: row["id"]) == table.expected()
    for name in [field.name for field in table.fields][:3]:
        assert scan(table.table.handle.state, [name]).count() == len(rows)
        null = scan(table.table.handle.state, ["id"], pc.field(name).is_null()).to_arrow()["id"].to_pylist()
        assert sorted(null) == [row["id"] for row in table.expected() if row[name] is None]


def in_order(type_: PaimonType, value: Any) -> Any:
    """The entries of maps in the order of their keys."""
    if value is None:
        return None
    match type_:
        case RowType(fields):
            return {field.name: in_order(field.type, value[field.name]) for field in fields}
        case ArrayType(element):
            return [in_order(element, part) for part in value]
        case MapType(_, item):
            return sorted((key, in_order(item, part)) for key, part in value)
    return value
