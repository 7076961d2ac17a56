"""B-tree global indexes of pypaimon 2.1, used to prune files. Spec: docs/formats/paimon.md § 12.8."""

from __future__ import annotations

import re
import shutil
import struct
from pathlib import Path

import pyarrow as pa
import pytest
from test_paimon_data_evolution import DATA

from skerry.errors import FormatError, SkerryError
from skerry.paimon.file_index.btree import BTreeIndex, IndexedKeys, KeyRange, decode_index_meta
from skerry.paimon.manifests.live_files import index_entries
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.types import AtomicType, TypeRoot
from skerry.storage import Storage

_BIGINT = AtomicType(TypeRoot.BIGINT)


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    shutil.copytree(DATA / "indexed", tmp_path / "t")
    return PaimonTable.open(Storage(), str(tmp_path / "t"))


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id = 103", 2),
        ("id IN (3, 306)", 3),
        ("id = 4", 1),
        ("id > 350", 2),
        ("id >= 0 AND id < 1", 2),
        ("s = 'name-10'", 2),
        ("s = 'name-10' AND id < 50", 1),
        ("s < 'name-1'", 2),
        ("s IS NULL", 5),
        ("id <> 3", 5),
    ],
)
def test_indexes_prune_files(table: PaimonTable, where: str, files: int) -> None:
    found = table.scan(where=where)
    assert found.to_arrow().num_rows == found.count()
    assert f"to read                        {files} files" in str(found.explain())


def test_what_is_found_is_what_is_there(table: PaimonTable) -> None:
    rows = table.scan().to_arrow().to_pylist()
    for number in (0, 3, 57, 58, 357, 1000):
        assert table.scan(where=f"id = {number}").to_arrow().to_pylist() == [row for row in rows if row["id"] == number]
    for text in ("name-0", "name-1", "name-25", "late", "none"):
        assert table.scan(where=f"s = '{text}'").to_arrow().to_pylist() == [row for row in rows if row["s"] == text]
    for bound in (0, 100, 356, 357):
        for operator, holds in (("<=", int.__le__), (">", int.__gt__)):
            found = table.scan(where=f"id {operator} {bound}").to_arrow().to_pylist()
            assert found == [row for row in rows if holds(row["id"], bound)]


def test_corrupt_indexes_are_refused(table: PaimonTable) -> None:
    entry = next(entry for entry in index_entries(table.handle.state) if entry.global_index is not None)
    (path,) = Path(table.location).rglob(entry.file_name)
    data = path.read_bytes()

    def look_up(data: bytes) -> list[int]:
        index = BTreeIndex(lambda offset, length: data[offset : offset + length], len(data), _BIGINT, "f")
        found = index.row_ids([KeyRange(3, 6)], 80)
        assert found is not None
        return found.tolist()

    assert look_up(data) == [1, 2]
    for bad in (data[:-1], data[:20], data[:10] + b"\xff" + data[11:], data[:-8] + b"\2" + data[-7:]):
        with pytest.raises(SkerryError):
            look_up(bad)
    with pytest.raises(FormatError, match="has row 2 of 2"):
        BTreeIndex(lambda offset, length: data[offset : offset + length], len(data), _BIGINT, "f").row_ids(
            [KeyRange(6, 6)], 2
        )
    path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    with pytest.raises(FormatError, match="has a block with a wrong checksum"):
        table.scan(where="id = 3").to_arrow()
    assert table.scan().count() == 82


def test_what_the_index_manifest_says_spares_files(tmp_path: Path) -> None:
    """Index files without a wanted key are not opened; nulls are found by their bitmap."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.string()), ("at", pa.timestamp("us"))])
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "metadata.stats-mode": "none"}
    table = PaimonTable.create(Storage(), str(tmp_path / "t"), schema, properties=options)
    for first in (0, 10, 20, 30):
        ids = range(first, first + 10)
        texts = [None if first == 20 or number == 15 else f"{number:02}" for number in ids]
        table.append(pa.table({"id": list(ids), "s": texts, "at": [None, *range(first, first + 9)]}, schema=schema))
        table.create_index(schema.names, kind="btree")
    table.append(pa.table({"id": [40], "s": ["40"], "at": [40]}, schema=schema))  # in no index

    def found(where: str) -> tuple[list[int], int, int]:
        """Rows, data files to read, index files that are opened."""
        scan, read = table.scan(where=where), []
        with pytest.MonkeyPatch.context() as patch:
            plain = BTreeIndex._footer
            patch.setattr(BTreeIndex, "_footer", lambda index: (read.append(index.location), plain(index))[1])
            plan = str(scan.explain())
        (files,) = re.findall(r"to read +(\d+) file", plan)
        return sorted(scan.to_arrow()["id"].to_pylist()), int(files), len(read)

    assert found("id = 12") == ([12], 2, 1)
    assert found("id BETWEEN 8 AND 11") == ([8, 9, 10, 11], 3, 6)
    assert found("id IN (3, 33)") == ([3, 33], 3, 2)
    assert found("s >= '19' AND s < '30'") == ([19], 3, 5)
    assert found("s IS NULL") == ([15, *range(20, 30)], 3, 2)
    assert found("at IS NULL AND id < 19") == ([0, 10], 3, 6)
    assert found("s IS NULL AND id = 15") == ([15], 2, 3)
    assert found("s IS NOT NULL AND id > 38") == ([39, 40], 2, 1)


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        (b"\x08\0\0", "has no two keys"),
        (b"\xff\xff\xff\xff", "has a key of -1 bytes at 4"),
        (b"\x09\0\0\0" + bytes(8), "has a key of 9 bytes at 4"),
        (b"\x08\0\0\0" + bytes(8), "has no two keys"),
        (2 * (b"\x08\0\0\0" + bytes(8)), "ends after its keys"),
        (2 * (b"\x04\0\0\0" + bytes(4)) + b"\0", "has a key of 4 bytes, expected 8"),
    ],
)
def test_a_description_of_another_layout_is_refused(meta: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode_index_meta(_BIGINT, meta, "f")


def test_a_description_has_keys_or_none() -> None:
    keys = b"\x08\0\0\0" + struct.pack("<q", -3) + b"\x08\0\0\0" + struct.pack("<q", 9)
    assert decode_index_meta(_BIGINT, keys + b"\1", "f") == IndexedKeys(-3, 9, True)
    assert decode_index_meta(_BIGINT, keys + b"\0\1\0", "f") == IndexedKeys(-3, 9, False)
    without = [bytes(8) + b"\1", bytes(8) + b"\1\1\3"]  # Java 1.4.2, pypaimon 2.1
    for meta in without:
        assert not decode_index_meta(_BIGINT, meta, "f").may_hold([KeyRange()])
    text = AtomicType(TypeRoot.VARCHAR)
    assert decode_index_meta(text, bytes(8) + b"\0\1\0", "f") == IndexedKeys(b"", b"", False)
