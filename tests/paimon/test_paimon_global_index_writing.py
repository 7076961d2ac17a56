"""B-tree global indexes that skerry writes: the bytes of Paimon's own writers, which read them.

Spec: docs/formats/paimon.md § 12.8.
"""

from __future__ import annotations

import datetime
import decimal
import random
import shutil
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from skerry.errors import NotFoundError, SchemaError, UnsupportedError
from skerry.paimon.file_index.btree import BTreeIndex, KeyRange
from skerry.paimon.file_index.btree_writing import SortedRows, encode_btree
from skerry.paimon.jobs.indexes.global_index import build_global_indexes
from skerry.paimon.manifests.live_files import index_entries
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.types import AtomicType, TypeRoot
from skerry.storage import Storage

if TYPE_CHECKING:
    from paimon_peers import JavaPaimon, PyPaimon

EVOLUTION = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us")),
        ("second", pa.timestamp("s")),
        ("price", pa.decimal128(10, 2)),
        ("small", pa.int16()),
        ("part", pa.int32()),
    ]
)
COLUMNS = SCHEMA.names[:-1]


def made_rows(first: int, count: int, part: int = 0, seed: int = 0) -> pa.Table:
    chance = random.Random(first * 31 + seed)
    start = datetime.datetime(1970, 1, 1)

    def one(number: int) -> dict[str, Any]:
        tick = chance.randrange(-30, 30)
        row = {
            "name": f"näme {chance.randrange(40)}" * chance.randrange(1, 4),
            "day": start.date() + datetime.timedelta(tick),
            "at": start + datetime.timedelta(microseconds=tick * 1_234_567),
            "second": start + datetime.timedelta(seconds=tick),
            "price": decimal.Decimal(tick) / 4,
            "small": tick,
        }
        nulls = {name: None if chance.random() < 0.1 else value for name, value in row.items()}
        return {"id": number, **nulls, "part": part}

    return pa.Table.from_pylist([one(first + number) for number in range(count)], schema=SCHEMA)


def make(tmp_path: Path, **options: str) -> PaimonTable:
    properties = {**EVOLUTION, "btree-index.block-size": "200 b", **options}
    return PaimonTable.create(Storage(), str(tmp_path / "t"), SCHEMA, partition_by=["part"], properties=properties)


def index_files(table: PaimonTable) -> list[tuple[Any, ...]]:
    """What the index files of a table cover, say and are, but for their names."""
    found = []
    for entry in index_entries(table.refresh().handle.state):
        if entry.global_index is not None:
            covered = entry.global_index
            (path,) = Path(table.location).rglob(entry.file_name)
            where = (covered.index_field_id, covered.row_range_start, covered.row_range_end)
            found.append(
                (*where, entry.partition, entry.bucket, covered.index_meta, entry.row_count, path.read_bytes())
            )
    return sorted(found)


def assert_found(table: PaimonTable, pruned: bool = True) -> None:
    """A condition of each kind finds what is there."""
    rows = table.scan().to_arrow().to_pylist()
    chance = random.Random(1)
    for column, text in (("id", str), ("name", repr), ("day", "DATE '{}'".format), ("at", "TIMESTAMP '{}'".format)):
        for _ in range(3):
            wanted = chance.choice([row[column] for row in rows if row[column] is not None])
            scan = table.scan(where=f"{column} = {text(wanted)}")
            assert scan.to_arrow().to_pylist() == [row for row in rows if row[column] == wanted]
            assert ("files by global index" in str(scan.explain())) is pruned
            above = table.scan(where=f"{column} > {text(wanted)}").to_arrow().to_pylist()
            assert above == [row for row in rows if row[column] is not None and row[column] > wanted]
    for column, wanted in (("price", decimal.Decimal("1.25")), ("small", -7)):
        found = table.scan(where=f"{column} <= {wanted}").to_arrow().to_pylist()
        assert found == [row for row in rows if row[column] is not None and row[column] <= wanted]


# One file ------------------------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def plain_block(entries: list[tuple[bytes, bytes]]) -> bytes:
    parts = [varint(len(key)) + key + varint(len(value)) + value for key, value in entries]
    sizes = {len(part) for part in parts}
    if len(sizes) == 1:
        return b"".join(parts) + struct.pack("<IB", sizes.pop(), 0)
    positions = np.cumsum([0, *map(len, parts)][:-1]).astype("<i4").tobytes() if parts else b""
    return b"".join(parts) + positions + struct.pack("<IB", len(parts), 1)


def plain_btree(keys: dict[bytes, list[int]], nulls: list[int], block_bytes: int) -> bytes:
    """The slow twin: entry by entry."""
    out, index, waiting = b"", [], []

    def written(block: bytes) -> bytes:
        return block + struct.pack("<BI", 0, zlib.crc32(block + b"\0"))

    for number, (key, rows) in enumerate(keys.items()):
        waiting.append((key, varint(len(rows)) + b"".join(map(varint, rows))))
        block = plain_block(waiting)
        if len(block) > block_bytes or number == len(keys) - 1:
            index.append((key, varint(len(out)) + varint(len(block))))
            out, waiting = out + written(block), []
    at_nulls = (0, 0)
    if nulls:
        bits = BitMap64(nulls)
        bits.run_optimize()
        data = bytes(bits.serialize())
        at_nulls = (len(out), len(data))
        out += data + struct.pack("<I", zlib.crc32(data))
    block = plain_block(index)
    at_index = (len(out), len(block))
    return out + written(block) + struct.pack("<QIQQIQIII", 0, 0, 0, *at_index, *at_nulls, 1, 0x50425449)


_KEYS = st.dictionaries(st.text(max_size=5), st.integers(1, 3), max_size=40)


@given(_KEYS, st.sets(st.integers(0, 20), max_size=3), st.integers(0, 120))
def test_a_file_is_that_of_a_plain_writer(counts: dict[str, int], nulls: set[int], block_bytes: int) -> None:
    keys = {key.encode(): counts[key] for key in sorted(counts, key=str.encode)}
    numbers = iter(range(100, 100000, 57))
    rows = {key: [next(numbers) for _ in range(count)] for key, count in keys.items()}
    listed = [key for key, found in rows.items() for _ in found]
    type_ = AtomicType(TypeRoot.VARCHAR)
    ids = np.array([row for found in rows.values() for row in found], np.int64)
    without = np.array(sorted(nulls), np.int64)
    data, meta = encode_btree(type_, SortedRows(pa.array(listed, pa.large_binary()), ids, without), block_bytes)
    assert data == plain_btree(rows, sorted(nulls), block_bytes)
    first, last = (next(iter(rows), b""), listed[-1] if listed else b"")
    ends = struct.pack("<i", len(first)) + first + struct.pack("<i", len(last)) + last
    assert meta == ends + bytes([bool(nulls), 1, 0 if rows else 3])
    index = BTreeIndex(lambda offset, length: data[offset : offset + length], len(data), type_, "f")
    for key in list(rows)[:3]:
        found = index.row_ids([KeyRange(key, key)], 100000)
        assert found is not None
        assert found.tolist() == rows[key]


# Tables --------------------------------------------------------------------------------------------------------------


def test_an_index_is_built_used_extended_and_dropped(tmp_path: Path) -> None:
    table = make(tmp_path, **{"btree-index.records-per-range": "50", "deletion-vectors.enabled": "true"})
    for number in range(4):
        table.append(made_rows(40 * number, 40, number % 2))
    table.append(made_rows(160, 100, 1))
    built = table.create_index(COLUMNS, kind="btree")
    assert built.rows == 260 * len(COLUMNS)
    assert [(each.column, each.kind, each.files, each.indexed_files) for each in table.indexes()] == [
        (name, "btree", 5, 5) for name in COLUMNS
    ]
    assert_found(table)
    table.delete("id = 17")
    table.append(made_rows(300, 20, 1))
    assert table.indexes()[0].indexed_files == 5
    assert_found(table)
    assert table.index().files == 1
    assert table.index().files == 0
    assert table.indexes()[0].indexed_files == 6
    assert_found(table)
    with pytest.raises(UnsupportedError, match="column with a global index"):
        table.update({"name": "'x'"}, where="id = 3")
    table.drop_index(["name"])
    with pytest.raises(NotFoundError, match="column 'name' has no index"):
        table.drop_index(["name"])
    table.update({"name": "'x'"}, where="id = 3")
    table.set_properties({"global-index.column-update-action": "DROP_PARTITION_INDEX"})
    table.update({"small": "99"}, where="id = 4")
    assert {each.column: each.indexed_files for each in table.indexes()}["small"] == 4
    assert table.scan(where="small = 99").count() == 1
    table.index()
    assert {each.column: each.indexed_files for each in table.indexes()}["small"] == 6
    assert table.scan(where="small = 99").count() == 1
    table.overwrite(made_rows(0, 5, 1), where="part = 1")
    assert table.scan(where="id = 2").count() == 2
    assert {entry.partition for entry in index_entries(table.handle.state) if entry.global_index}


def test_what_cannot_be_indexed_is_refused(tmp_path: Path) -> None:
    plain = PaimonTable.create(Storage(), str(tmp_path / "p"), SCHEMA)
    with pytest.raises(UnsupportedError, match=r"tables with data-evolution.enabled=true"):
        plain.create_index(["id"], kind="btree")
    table = PaimonTable.create(
        Storage(), str(tmp_path / "t"), pa.schema([("id", pa.int32()), ("x", pa.float64())]), properties=EVOLUTION
    )
    assert table.create_index(["id"], kind="btree").files == 0
    with pytest.raises(UnsupportedError, match="'x' of DOUBLE has no btree index"):
        table.create_index(["x"], kind="btree")
    with pytest.raises(NotFoundError, match="no column 'y'"):
        table.create_index(["y"], kind="btree")
    with pytest.raises(SchemaError, match="has no tokenizer"):
        table.create_index(["id"], kind="btree", tokenizer="trivial")
    table.append(pa.table({"id": pa.array([1, 2], pa.int32()), "x": [1.0, 2.0]}))
    table.update_schema().update_column("id", "BIGINT").commit()
    with pytest.raises(UnsupportedError, match="column 'id' is INT in data file"):
        table.create_index(["id"], kind="btree")


def test_a_rival_update_is_not_missed(tmp_path: Path) -> None:
    """An index that was built while another writer updated the column would have the old values."""
    table = make(tmp_path)
    table.append(made_rows(0, 30))
    request = table.handle.request()
    load, calls = request.target.load, []

    def load_then_update() -> Any:
        state = load()
        if not calls:
            calls.append(1)
            other = PaimonTable.open(Storage(), table.location)
            other.update({"small": "77"}, where="id = 5")
        return state

    request.target.load = load_then_update  # type: ignore[method-assign]
    build_global_indexes(request, ["small"])
    assert table.refresh().scan(where="small = 77").count() == 1
    assert table.indexes()[0].indexed_files == 1


# Peers ---------------------------------------------------------------------------------------------------------------


def test_files_are_those_of_the_peers(tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon) -> None:
    """The bytes, ranges and metadata that pypaimon 2.1 writes, and Java 1.4.2, which puts equal keys in any order."""
    table = make(tmp_path)
    for number in range(4):
        table.append(made_rows(50 * number, 50, number // 2))
    table.append(made_rows(200, 1, 2).set_column(1, SCHEMA.field("name"), pa.nulls(1, pa.string())))
    for peer in ("java", "pypaimon"):
        shutil.copytree(table.location, tmp_path / peer)
    table.create_index(COLUMNS, kind="btree")
    for column in COLUMNS:
        java_paimon.index(tmp_path / "java", column)
        pypaimon.index(tmp_path / "pypaimon", column)
    mine, java, python = (
        index_files(found if isinstance(found, PaimonTable) else PaimonTable.open(Storage(), str(found)))
        for found in (table, tmp_path / "java", tmp_path / "pypaimon")
    )
    assert len(mine) == 3 * len(COLUMNS)
    assert mine == python
    assert [file for file in mine if file[0] == 0] == [(*file[:5], file[5] + b"\1\0", *file[6:]) for file in java[:3]]
    assert [(*file[:5], file[5][:-2], file[6], len(file[7])) for file in mine] == [
        (*file[:7], len(file[7])) for file in java
    ]
    assert_found(table)


def test_peers_read_by_our_index(tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon) -> None:
    table = make(tmp_path)
    table.append(made_rows(0, 200))
    table.append(made_rows(200, 190))
    table.append(made_rows(390, 5, 2).set_column(1, SCHEMA.field("name"), pa.nulls(5, pa.string())))
    table.create_index(["id", "name"], kind="btree")
    table.append(made_rows(400, 10))
    rows = table.scan().to_arrow().to_pylist()
    for column, wanted in (("id", 250), ("name", "näme 7"), ("name", None)):
        mine = [row["id"] for row in rows if row[column] == wanted]
        covered = [number for number in mine if number < 400]
        theirs = [row[0] for row in java_paimon.read(table.location, equal={column: wanted})]
        assert theirs == covered  # Java 1.4.2 sees no rows that its index does not cover
        assert pypaimon.read(table.location, equal={column: wanted}).column("id").to_pylist() == mine
    table.index()
    for number in (250, 405):
        assert [row[0] for row in java_paimon.read(table.location, equal={"id": number})] == [number]
