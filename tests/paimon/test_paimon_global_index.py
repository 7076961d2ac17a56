"""B-tree global indexes of pypaimon 2.1, used to prune files. Spec: docs/formats/paimon.md § 12.8."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from test_paimon_data_evolution import DATA

from skerry.errors import FormatError, SkerryError
from skerry.paimon.file_index.btree import BTreeIndex, KeyRange
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
