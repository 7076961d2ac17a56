"""Tables whose rows are stitched together from files of some columns; BLOB and VECTOR columns in files of their own.

The shipped ones are by pypaimon 2.1. Spec: docs/formats/paimon.md § 8.8, § 8.10, § 8.11.
"""

from __future__ import annotations

import base64
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.errors import FormatError, SchemaError, SkerryError, UnsupportedError
from skerry.paimon.jobs.merge import upsert
from skerry.paimon.manifests.live_files import index_entries, live_entries
from skerry.paimon.manifests.manifest import DataFileMeta, FileKind, ManifestEntry, batch_of
from skerry.paimon.planning.row_sections import row_sections
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.blob_layout import (
    FOOTER_BYTES,
    BlobDescriptor,
    decode_index,
    decode_index_length,
    descriptors,
    encode_index,
)
from skerry.paimon.values.simple_stats import EMPTY_ROW
from skerry.storage import Storage

if TYPE_CHECKING:
    from paimon_peers import JavaPaimon, PyPaimon

DATA = Path(__file__).parent / "data" / "pypaimon"


def opened(folder: Path, name: str) -> PaimonTable:
    shutil.copytree(DATA / name, folder / name)
    return PaimonTable.open(Storage(), str(folder / name))


def rows_of(table: PaimonTable, **how: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan(**how).to_arrow().to_pylist()
    return rows


# Columns of the same rows --------------------------------------------------------------------------------------------


EVOLVED = [(1, "a", 1), (2, "b", 20), (3, "C", 3), (4, "d", 4), (5, "e", 5), (6, "f", None)]


def test_columns_come_from_the_newest_file_that_has_them(tmp_path: Path) -> None:
    table = opened(tmp_path, "evolved")
    assert [tuple(row.values()) for row in rows_of(table)] == EVOLVED
    assert rows_of(table, columns=["n"]) == [{"n": row[2]} for row in EVOLVED]
    assert rows_of(table, where="n = 20 OR s = 'C'", columns=["id"]) == [{"id": 2}, {"id": 3}]
    assert rows_of(table, where="n IS NULL", columns=["s", "_row_id"]) == [{"s": "f", "_row_id": 5}]
    assert [row["_last_updated_sequence_number"] for row in rows_of(table, columns=table_lineage())] == [4] * 4 + [
        3
    ] * 2
    assert table.scan().count() == 6
    assert table.scan(where="n > 3").count() == 3
    assert table.scan().row_bounds() == (6, 6)
    assert rows_of(table, snapshot=2) == [
        {"id": number, "s": "abcdef"[number - 1], "n": number} for number in range(1, 7)
    ]


def table_lineage() -> list[str]:
    return ["_row_id", "_last_updated_sequence_number"]


def test_changes_of_stitched_rows_are_compared(tmp_path: Path) -> None:
    table = opened(tmp_path, "evolved")
    found = table.changes(2, 3, on=["id"]).to_arrow()
    assert found.select(["id", "n", "_change_type"]).to_pylist() == [
        {"id": 2, "n": 2, "_change_type": "UPDATE_BEFORE"},
        {"id": 2, "n": 20, "_change_type": "UPDATE_AFTER"},
        {"id": 6, "n": 6, "_change_type": "UPDATE_BEFORE"},
        {"id": 6, "n": None, "_change_type": "UPDATE_AFTER"},
    ]
    assert table.changes(1, 2).to_arrow().select(["id", "_change_type"]).to_pylist() == [
        {"id": 5, "_change_type": "INSERT"},
        {"id": 6, "_change_type": "INSERT"},
    ]


def test_stitched_rows_are_counted_and_appended_to(tmp_path: Path) -> None:
    table = opened(tmp_path, "evolved")
    assert table.statistics()["n"].ndv is None
    table.analyze()
    assert {name: found.ndv for name, found in table.statistics().items()} == {"id": 6, "s": 6, "n": 5}
    table.append(pa.table({"id": [7], "s": ["g"], "n": pa.array([7], pa.int32())}))
    assert {name: found.ndv for name, found in table.statistics().items()} == {"id": 7, "s": 7, "n": 6}
    assert rows_of(table, where="id = 7", columns=["id", "_row_id"]) == [{"id": 7, "_row_id": 6}]
    explained = str(table.scan(where="id = 7").explain())
    assert "files by bounds" in explained
    before = rows_of(table, columns=["id", "s", "n", "_row_id"])
    table.compact(full=True)
    assert rows_of(table, columns=["id", "s", "n", "_row_id"]) == before


def test_vectors_of_the_oldest_file_delete_rows(tmp_path: Path) -> None:
    table = opened(tmp_path, "deleted")
    assert rows_of(table) == [{"id": 1, "s": "a"}, {"id": 3, "s": "c"}, {"id": 4, "s": "D"}]
    assert table.scan().count() == 3
    assert rows_of(table, columns=["id", "_row_id"])[1] == {"id": 3, "_row_id": 2}


def entry(name: str, first: int | None, rows: int, **how: Any) -> ManifestEntry:
    file = DataFileMeta(name, 1, rows, first_row_id=first, **how)
    return ManifestEntry(FileKind.ADD, EMPTY_ROW, 0, -1, file)


def sections(*entries: ManifestEntry) -> list[list[str]]:
    found = row_sections(batch_of(entries), np.zeros(len(entries), np.int64), location="x")
    names = [entries[row].file.file_name for row in found.rows.tolist()]
    return [names[start:end] for start, end in zip(found.starts[:-1].tolist(), found.starts[1:].tolist(), strict=True)]


def test_files_are_grouped_by_row_ids() -> None:
    newer = entry("b.parquet", 0, 4, max_sequence_number=2)
    found = sections(
        entry("c.parquet", 4, 1), newer, entry("x.blob", 2, 2), entry("a.parquet", 0, 4), entry("d.parquet", None, 9)
    )
    assert found == [["a.parquet", "b.parquet", "x.blob"], ["c.parquet"], ["d.parquet"]]


@pytest.mark.parametrize(
    "entries",
    [
        [entry("a.parquet", 0, 4), entry("b.parquet", 1, 3)],
        [entry("a.parquet", 0, 4), entry("b.parquet", 0, 3)],
        [entry("a.parquet", 0, 4), entry("x.blob", 3, 2)],
        [entry("x.vector.parquet", 0, 2)],
        [entry("a.parquet", 2**62 + 1, 2)],
    ],
)
def test_row_ids_that_overlap_otherwise_are_refused(entries: list[ManifestEntry]) -> None:
    with pytest.raises(FormatError, match="row ids"):
        sections(*entries)


# BLOB and VECTOR columns ---------------------------------------------------------------------------------------------


def test_blobs_and_vectors_are_read_from_files_of_their_own(tmp_path: Path) -> None:
    table = opened(tmp_path, "dedicated")
    rows = rows_of(table)
    assert [row["v"] for row in rows] == [[1, 2], [30, 40], [5, 6], [7, 8]]
    assert [None if row["b"] is None else table.open_blob(row["b"]).read() for row in rows] == [
        b"x" * 700,
        None,
        b"new",
        b"",
    ]
    stream = table.open_blob(rows[0]["b"])
    assert (stream.seek(690), stream.read(5), stream.read()) == (690, b"xxxxx", b"xxxxx")
    assert rows_of(table, columns=["id"], where="b IS NULL") == [{"id": 2}]
    assert table.scan(columns=["v"], where="id = 4").to_arrow().column("v").to_pylist() == [[7, 8]]
    assert "b" not in table.statistics()


def test_blobs_are_bytes_where_a_table_says_so(tmp_path: Path) -> None:
    table = opened(tmp_path, "dedicated")
    table.set_properties({"blob-as-descriptor": "false"})
    assert [row["b"] for row in rows_of(table)] == [b"x" * 700, None, b"new", b""]
    (blob,) = [path for path in (tmp_path / "dedicated").rglob("*.blob") if path.stat().st_size > 700]
    data = bytearray(blob.read_bytes())
    data[100] ^= 1
    blob.write_bytes(data)
    with pytest.raises(FormatError, match="a value of a BLOB file is corrupt"):
        rows_of(table)


def test_descriptors_lead_nowhere_else(tmp_path: Path) -> None:
    table = opened(tmp_path, "dedicated")
    (tmp_path / "secret").write_bytes(b"secret")
    with pytest.raises(SkerryError, match="outside"):
        table.open_blob(BlobDescriptor(str(tmp_path / "secret"), 0, 6).encode())
    blob = str(next((tmp_path / "dedicated").rglob("*.blob")))
    assert len(table.open_blob(BlobDescriptor(blob, 1, -1).encode()).read()) == Path(blob).stat().st_size - 1
    with pytest.raises(FormatError, match="names bytes 1 to 100001 of a file"):
        table.open_blob(BlobDescriptor(blob, 1, 100_000).encode())
    for wrong in (b"", b"\x02abc", b"\x01\xff\xff\xff\xff", BlobDescriptor("x", 0, 1).encode() + b"\0"):
        with pytest.raises(FormatError, match="descriptor of a BLOB"):
            table.open_blob(wrong)


def test_descriptors_are_made_together() -> None:
    made = descriptors("f", np.array([4, 0, 9]), np.array([1, 0, 3]), np.array([True, False, True]))
    assert made.to_pylist() == [BlobDescriptor("f", 4, 1).encode(), None, BlobDescriptor("f", 9, 3).encode()]
    assert BlobDescriptor.decode(made[2].as_py()) == BlobDescriptor("f", 9, 3)
    old = b"\x01\x01\0\0\0f" + (7).to_bytes(8, "little") + (2).to_bytes(8, "little")
    assert BlobDescriptor.decode(old) == BlobDescriptor("f", 7, 2)


def test_indexes_of_blob_files_come_back() -> None:
    lengths = np.array([16, -1, 2**40, -2, 17, 1 << 20])
    data = encode_index(lengths)
    index, end = data[:-FOOTER_BYTES], int(lengths[lengths > 0].sum())
    assert decode_index_length(data[-FOOTER_BYTES:], len(data) + end) == len(index)
    offsets, found = decode_index(index, 6, end)
    assert found.tolist() == lengths.tolist()
    assert offsets.tolist() == [0, 16, 16, 16 + 2**40, 16 + 2**40, 33 + 2**40]
    for bad, rows in ((index[:-1], 6), (index, 5), (index + b"\0", 6), (b"\x80", 1), (b"\x1e", 1), (b"\x05", 1)):
        with pytest.raises(FormatError):
            decode_index(bad, rows, end)
    with pytest.raises(FormatError, match="take 16 bytes, its index begins at 17"):
        decode_index(encode_index(np.array([16]))[:-FOOTER_BYTES], 1, 17)


# Changes -------------------------------------------------------------------------------------------------------------

SCHEMA = pa.schema([("id", pa.int64()), ("s", pa.string()), ("n", pa.int32())])


def make(folder: Path, **options: str) -> PaimonTable:
    properties = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", **options}
    table = skerry.connect(folder).create_table("db.t", SCHEMA, format="paimon", properties=properties)
    assert isinstance(table, PaimonTable)
    return table


def test_merges_write_the_changed_columns_alone(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"], "n": [1, 2, 3]}, schema=SCHEMA))
    table.append(pa.table({"id": [4, 5], "s": ["d", "e"], "n": [4, 5]}, schema=SCHEMA))
    done = table.merge(
        pa.table({"id": [2, 9], "s": ["b", "new"], "n": pa.array([20, 9], pa.int32())}),
        on="id",
        when_matched=skerry.Update(),
        when_not_matched=skerry.Insert(),
    )
    assert (done.updated_rows, done.inserted_rows, done.added_files) == (1, 1, 2)
    entries = {entry.file.write_cols: entry.file for entry in live_entries(table.handle.state)}
    assert set(entries) == {None, ("n",)}
    assert (entries["n",].first_row_id, entries["n",].row_count, entries["n",].max_sequence_number) == (0, 3, 3)
    assert [tuple(row.values()) for row in rows_of(table, columns=["id", "s", "n", "_row_id"])] == [
        (1, "a", 1, 0),
        (2, "b", 20, 1),
        (3, "c", 3, 2),
        (4, "d", 4, 3),
        (5, "e", 5, 4),
        (9, "new", 9, 5),
    ]
    assert str(table.statistics()["n"].freshness).startswith("upper bound")
    table.analyze()
    assert {name: found.ndv for name, found in table.statistics().items()} == {"id": 6, "s": 6, "n": 6}
    assert "to read                        2 files" in str(table.scan(where="n = 20").explain())
    assert "to read                        0 files" in str(table.scan(where="n = 21").explain())


def test_columns_are_added_to_rows_that_exist(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(pa.table({"id": [1, 2], "s": ["a", "b"], "n": [1, 2]}, schema=SCHEMA))
    table.update_schema().add_column("score", pa.float64()).commit()
    table.upsert(pa.table({"id": [1, 3], "s": ["a", "c"], "n": [1, 3], "score": [0.5, 1.5]}), on=["id"])
    assert sorted(tuple(row.values()) for row in rows_of(table)) == [
        (1, "a", 1, 0.5),
        (2, "b", 2, None),
        (3, "c", 3, 1.5),
    ]
    assert ("score",) in {entry.file.write_cols for entry in live_entries(table.handle.state)}
    with pytest.raises(UnsupportedError, match="are deleted by deletion vectors only"):
        table.delete("id = 1")


def test_deleted_rows_of_groups_are_in_vectors(tmp_path: Path) -> None:
    table = make(tmp_path, **{"deletion-vectors.enabled": "true"})
    table.append(pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"], "n": [1, 2, 3]}, schema=SCHEMA))
    table.upsert(pa.table({"id": [2], "s": ["B"], "n": pa.array([2], pa.int32())}), on=["id"])
    assert table.delete("s = 'B'").deleted_rows == 1
    table.upsert(pa.table({"id": [3], "s": ["C"], "n": pa.array([3], pa.int32())}), on=["id"])
    assert [tuple(row.values()) for row in rows_of(table)] == [(1, "a", 1), (3, "C", 3)]
    assert table.scan().count() == 2
    done = table.merge(
        pa.table({"id": [1, 3], "s": ["x", "y"]}),
        on="id",
        when_matched=[skerry.Delete(where="source.s = 'x'"), skerry.Update({"s": "source.s"})],
    )
    assert (done.deleted_rows, done.updated_rows) == (1, 1)
    assert [tuple(row.values()) for row in rows_of(table)] == [(3, "y", 3)]


def test_columns_of_the_same_rows_conflict(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.append(pa.table({"id": [1, 2], "s": ["a", "b"], "n": [1, 2]}, schema=SCHEMA))
    rival = PaimonTable.open(Storage(), table.location)
    rows = pa.table({"id": [1], "s": ["A"], "n": pa.array([1], pa.int32())})
    request = table.handle.request()

    class Late:
        """Another writer is faster once."""

        done = False

        def map(self, function: Any, tasks: Any) -> Any:
            if not self.done:
                type(self).done = True
                rival.upsert(pa.table({"id": [2], "s": ["B"], "n": pa.array([2], pa.int32())}), on=["id"])
            return map(function, tasks)

    upsert(replace(request, executor=Late()), rows, ["id"])
    assert [row["s"] for row in rows_of(table.refresh())] == ["A", "B"]


@pytest.mark.service
def test_pypaimon_reads_columns_written_here(tmp_path: Path, pypaimon: PyPaimon) -> None:
    table = make(tmp_path, **{"deletion-vectors.enabled": "true"})
    table.append(pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"], "n": [1, 2, 3]}, schema=SCHEMA))
    table.upsert(pa.table({"id": [2, 4], "s": ["B", "d"], "n": pa.array([2, 4], pa.int32())}), on=["id"])
    table.upsert(pa.table({"id": [1], "s": ["a"], "n": pa.array([None], pa.int32())}), on=["id"])
    table.delete("id = 3")
    expected = [(1, "a", None), (2, "B", 2), (4, "d", 4)]
    assert sorted(tuple(row.values()) for row in pypaimon.read(table.location).to_pylist()) == expected
    pypaimon.write(table.location, pa.table({"id": [5], "s": ["e"], "n": [5]}, schema=SCHEMA))
    assert [tuple(row.values()) for row in rows_of(table.refresh())] == [*expected, (5, "e", 5)]


@pytest.mark.spark
def test_java_reads_columns_written_here(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    table = make(tmp_path)
    table.append(pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"], "n": [1, 2, 3]}, schema=SCHEMA))
    java_paimon.write(table.location, [[4, "d", 4]])
    table.refresh().upsert(
        pa.table({"id": [2, 4, 5], "s": ["B", "D", "e"], "n": pa.array([2, 4, 5], pa.int32())}), on=["id"]
    )
    expected = [[1, "a", 1], [2, "B", 2], [3, "c", 3], [4, "D", 4], [5, "e", 5]]
    assert sorted(java_paimon.read(table.location)) == expected
    assert sorted(list(row.values()) for row in rows_of(table)) == expected


# BLOB and VECTOR columns written -------------------------------------------------------------------------------------

VECTOR = pa.list_(pa.float32(), 2)
APART = pa.schema([("id", pa.int64()), ("b", pa.large_binary()), ("v", VECTOR)])
APART_OPTIONS = {"blob-field": "b", "vector-field": "v", "vector.file.format": "parquet"}


def apart(folder: Path, **options: str) -> PaimonTable:
    properties = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", **APART_OPTIONS, **options}
    table = skerry.connect(folder).create_table("db.t", APART, format="paimon", properties=properties)
    assert isinstance(table, PaimonTable)
    return table


def contents(table: PaimonTable, **how: Any) -> list[tuple[int, bytes | None, list[float] | None]]:
    return [
        (row["id"], None if row["b"] is None else table.open_blob(row["b"]).read(), row["v"])
        for row in rows_of(table, **how)
    ]


ROWS = [(1, b"x" * 700, [1.0, 2.0]), (2, None, None), (3, b"", [5.0, 6.0]), (4, b"y" * 900, [7.0, 8.0])]


def apart_rows(rows: list[tuple[int, bytes | None, list[float] | None]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(APART.names, row, strict=True)) for row in rows], APART)


def test_blobs_and_vectors_are_written_to_files_of_their_own(tmp_path: Path) -> None:
    table = apart(tmp_path, **{"blob.target-file-size": "1 kb", "deletion-vectors.enabled": "true"})
    table.append(apart_rows(ROWS))
    table.append(apart_rows([(5, b"z", None)]))
    assert contents(table) == [*ROWS, (5, b"z", None)]
    found = sorted(
        (entry.file.first_row_id, entry.file.row_count, entry.file.write_cols, entry.file.max_sequence_number)
        for entry in live_entries(table.handle.state)
    )
    assert found == [
        (0, 4, ("b",), 1),
        (0, 4, ("id",), 1),
        (0, 4, ("v",), 1),
        (4, 1, ("b",), 2),
        (4, 1, ("id",), 2),
        (4, 1, ("v",), 2),
    ]
    assert table.scan().count() == 5
    assert {name: counted.ndv for name, counted in table.statistics().items()} == {"id": 5}
    assert str(table.freshness()["id"]) == "fresh"
    table.merge(
        pa.table({"id": [2, 9], "v": pa.array([[0.0, 1.0], [9.0, 9.0]], VECTOR)}),
        on="id",
        when_matched=skerry.Update({"v": "source.v"}),
        when_not_matched=skerry.Insert({"id": "source.id", "v": "source.v"}),
    )
    assert contents(table, where="id IN (2, 9)") == [(2, None, [0.0, 1.0]), (9, None, [9.0, 9.0])]
    table.delete("id = 1")
    assert [row[0] for row in contents(table)] == [2, 3, 4, 5, 9]
    blobs = sorted(tmp_path.rglob("*.blob"))
    table.upsert(apart_rows([(3, b"new", None), (9, None, None)]), on=["id"])
    assert {row[0]: row[1] for row in contents(table)} == {
        **{number: value for number, value, _ in ROWS if number in (2, 4)},
        3: b"new",
        5: b"z",
        9: None,
    }
    new = [path for path in tmp_path.rglob("*.blob") if path not in blobs]
    sizes = sorted(path.stat().st_size for path in new)
    assert (len(sizes), sizes[0] < 80, sizes[1] > 900) == (2, True, True)  # files of single rows stay
    table.update({"b": "NULL"}, where="id = 3")
    table.upsert(apart_rows([(4, b"again", [4.0, 4.0]), (3, b"and again", None)]), on=["id"])
    values = {row[0]: row[1] for row in contents(table)}
    assert (values[3], values[4], values[2]) == (b"and again", b"again", None)
    table.compact(full=True)
    assert {row[0]: row[1] for row in contents(table)} == values


def test_blobs_are_divided_among_files_of_the_target_size(tmp_path: Path) -> None:
    table = apart(tmp_path, **{"blob.target-file-size": "600 b"})
    table.append(apart_rows(ROWS))
    blobs = [entry.file for entry in live_entries(table.handle.state) if entry.file.write_cols == ("b",)]
    assert [(file.first_row_id, file.row_count) for file in blobs] == [(0, 1), (1, 3)]
    assert contents(table) == ROWS
    assert contents(table, where="id > 2") == ROWS[2:]


def test_descriptors_are_copied_as_streams(tmp_path: Path) -> None:
    table = apart(tmp_path)
    table.append(apart_rows(ROWS))
    table.append(table.scan(where="id = 4").to_arrow())
    assert contents(table) == [*ROWS, ROWS[3]]
    (tmp_path / "secret").write_bytes(b"secret")
    outside = BlobDescriptor(str(tmp_path / "secret"), 0, 6).encode()
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(SkerryError, match="outside"):
        table.append(apart_rows([(7, b"first", None), (8, outside, None)]))
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_columns_in_files_of_their_own_need_data_evolution(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"'b' in files of its own needs data-evolution\.enabled=true"):
        apart(tmp_path, **{"data-evolution.enabled": "false"})
    catalog = skerry.connect(tmp_path)
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "b"}
    with pytest.raises(SchemaError, match="must have a column that is not in files of its own"):
        catalog.create_table("db.u", pa.schema([("b", pa.binary())]), format="paimon", properties=options)


@pytest.mark.service
def test_pypaimon_reads_blobs_and_vectors_written_here(tmp_path: Path, pypaimon: PyPaimon) -> None:
    table = apart(tmp_path, **{"blob.target-file-size": "600 b"})
    rows = [row for row in ROWS if row[2] is not None]
    table.append(apart_rows(rows))
    assert [tuple(row.values()) for row in pypaimon.read(table.location).to_pylist()] == rows
    pypaimon.write(table.location, apart_rows(rows[:1]))
    assert contents(table.refresh()) == [*rows, rows[0]]
    table.upsert(apart_rows([(3, b"changed", [5.0, 6.0])]), on=["id"])
    expected = [rows[0], (3, b"changed", [5.0, 6.0]), rows[2], rows[0]]
    assert contents(table) == expected
    assert [tuple(row.values()) for row in pypaimon.read(table.location).to_pylist()] == expected


@pytest.mark.spark
def test_blobs_are_exchanged_with_java(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    properties = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "b"}
    schema = pa.schema([("id", pa.int64()), ("b", pa.large_binary())])
    table = skerry.connect(tmp_path).create_table("db.t", schema, format="paimon", properties=properties)
    assert isinstance(table, PaimonTable)
    table.append(pa.table({"id": [1, 2, 3], "b": [b"abc", None, b""]}, schema=schema))
    assert java_paimon.read(table.location) == [[1, "YWJj"], [2, None], [3, ""]]
    java_paimon.write(table.location, [[4, b"def"], [5, None]])
    rows = rows_of(table.refresh())
    assert [None if row["b"] is None else table.open_blob(row["b"]).read() for row in rows] == [
        b"abc",
        None,
        b"",
        b"def",
        None,
    ]
    table.upsert(pa.table({"id": [1, 4], "b": [b"ABC", None]}, schema=schema), on=["id"])
    assert java_paimon.read(table.location) == [[1, "QUJD"], [2, None], [3, ""], [4, None], [5, None]]
    table.upsert(pa.table({"id": [3, 5], "b": [b"abc", b"x"]}, schema=schema), on=["id"])
    expected = [[1, "QUJD"], [2, None], [3, "YWJj"], [4, None], [5, "eA=="]]
    assert java_paimon.read(table.location) == expected
    table.compact(full=True)
    assert java_paimon.read(table.location) == expected
    table.set_properties({"blob.target-file-size": "40 b"})
    table.append(
        pa.table({"id": range(6, 12), "b": [b"a" * 20, b"b" * 20, None, b"c" * 20, b"d", b"e"]}, schema=schema)
    )
    before = set(tmp_path.rglob("*.blob"))
    table.upsert(pa.table({"id": [7, 8], "b": [b"B", b"C"]}, schema=schema), on=["id"])
    assert len(set(tmp_path.rglob("*.blob")) - before) == 3  # the second file is divided, that of row 11 stays
    values = {row[0]: base64.b64decode(row[1]) for row in java_paimon.read(table.location)[5:]}
    assert values == {6: b"a" * 20, 7: b"B", 8: b"C", 9: b"c" * 20, 10: b"d", 11: b"e"}


def test_updates_of_indexed_columns_drop_the_index_if_they_may(tmp_path: Path) -> None:
    table = opened(tmp_path, "indexed")
    rows = pa.table({"id": [3], "s": ["changed"]})
    with pytest.raises(UnsupportedError, match=r"a column with a global index \(btree\) is updated"):
        table.upsert(rows, on=["id"])
    table.set_properties({"global-index.column-update-action": "DROP_PARTITION_INDEX"})
    table.upsert(rows, on=["id"])
    assert rows_of(table, where="id = 3") == [{"id": 3, "s": "changed"}]
    left = [entry.global_index for entry in index_entries(table.handle.state)]
    assert [found.index_field_id for found in left if found is not None] == [0]


def test_files_of_some_columns_are_not_rewritten(tmp_path: Path) -> None:
    table = make(tmp_path, **{"file-index.bloom-filter.columns": "s"})
    table.append(pa.table({"id": [1, 2], "s": ["a", "b"], "n": [1, 2]}, schema=SCHEMA))
    table.upsert(pa.table({"id": [1], "s": ["a"], "n": pa.array([3], pa.int32())}), on=["id"])
    assert rows_of(table, where="s = 'a'", columns=["n"]) == [{"n": 3}]
    assert rows_of(table, where="s = 'zz'") == []
    with pytest.raises(UnsupportedError, match=r"data-evolution\.enabled=true: indexes of old files are not rewritten"):
        table.rewrite_file_indexes(full=True)
    table.overwrite(pa.table({"id": [5], "s": ["e"], "n": [5]}, schema=SCHEMA))
    assert rows_of(table, columns=["id", "_row_id"]) == [{"id": 5, "_row_id": 2}]


def test_counts_are_no_more_than_bounds_after_updates_and_deletes(tmp_path: Path) -> None:
    table = make(tmp_path, **{"deletion-vectors.enabled": "true"})
    table.append(pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"], "n": [1, 2, 3]}, schema=SCHEMA))
    table.upsert(pa.table({"id": [1], "s": ["x"], "n": pa.array([1], pa.int32())}), on=["id"])
    table.delete("s = 'b'")
    counted = table.statistics()["s"]
    assert (counted.ndv, str(counted.freshness).startswith("upper bound")) == (4, True)
    table.analyze()
    assert (table.statistics()["s"].ndv, str(table.freshness()["s"])) == (2, "fresh")
