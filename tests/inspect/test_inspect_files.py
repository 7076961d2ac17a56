"""Files of every kind are taken apart: parts lie within their whole, side by side, and say what readers find."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.errors import SkerryError
from skerry.inspect import Entry, inspect_file, part_at
from skerry.storage import Storage

STORAGE = Storage({})
ROWS = pa.table(
    {"id": pa.array(range(3000), pa.int64()), "k": [i % 7 for i in range(3000)], "s": ["ab", "c", None] * 1000}
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    catalog = skerry.connect(folder)
    orders = catalog.create_table(
        "a.iceberg",
        ROWS.schema,
        partition_by=["k"],
        format_version=3,
        properties={"write.delete.mode": "merge-on-read"},
    )
    orders.append(ROWS)
    orders.delete("id < 5 and k < 2")
    catalog.create_table("a.shards", ROWS.schema, file_format="amudai").append(ROWS)
    paimon = {
        "deletion-vectors.enabled": "true",
        "file-index.bloom-filter.columns": "id",
        "file-index.in-manifest-threshold": "1 b",
    }
    stock = catalog.create_table("a.paimon", ROWS.schema, format="paimon", properties=paimon)
    stock.append(ROWS)
    stock.delete("id < 7")
    return folder


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".db", ".json_"))


def every_part(location: str, at: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], Entry]]:
    """Every part, each as it is when it is asked for; of many alike the first ones."""
    part = part_at(inspect_file(STORAGE, location, at), at)[-1]
    yield at, part
    if len(at) < 5:
        for number, child in enumerate(part.children[:12]):
            if child.children or child.kind in ("blob", "block", "footer", "column chunk", "data page", "page index"):
                yield from every_part(location, (*at, number))


def check(part: Entry) -> None:
    assert "error" not in part.details, part
    placed = sorted(
        (child.start, child.end)
        for child in part.children
        if child.start is not None and child.end is not None and child.file == part.file
    )
    assert all(start <= end for start, end in placed)
    if part.start is not None and part.end is not None:
        assert all(part.start <= start and end <= part.end for start, end in placed), part
    assert all(end <= start for (_, end), (start, _) in pairwise(placed)), part


def test_every_file_of_tables_is_taken_apart(warehouse):
    kinds = Counter()
    for path in files(warehouse):
        if path.name in ("LATEST", "EARLIEST") or path.name.startswith((".", "_")) or path.suffix == ".text":
            continue
        for at, part in every_part(str(path)):
            check(part)
            kinds[part.kind] += not at
            if part.kind in ("Puffin file", "Avro file"):  # every byte is in a part
                assert sum(child.end - child.start for child in part.children) == part.end, path
    wanted = {"Parquet file", "Avro file", "Puffin file", "Amudai shard", "JSON file"}
    assert wanted | {"Paimon deletion vectors", "Paimon file index"} <= set(kinds), kinds
    assert kinds["file"] == 0, kinds


def test_a_manifest_says_what_the_table_says(warehouse):
    table = skerry.connect(warehouse).load_table("a.iceberg")
    manifest = table.inspect.manifests().column("path")[0].as_py()
    tree = inspect_file(STORAGE, manifest, [3])
    block = next(child for child in tree.children if child.kind == "block")
    data_file = next(part for part in block.children[0].children if part.name == "data_file")
    said = {part.name: part.details.get("value") for part in data_file.children}
    known = table.inspect.files().select(["file_path", "record_count"]).to_pylist()
    assert {"file_path": said["file_path"], "record_count": said["record_count"]} in known
    ids = {part.name: part.details["field_id"] for part in data_file.children}
    assert ids["file_path"] == 100  # Iceberg spec, Data File Fields


def test_deletion_vectors_say_what_is_deleted(warehouse):
    catalog = skerry.connect(warehouse)
    deletes = catalog.load_table("a.iceberg").inspect.files(columns=["content", "file_path", "record_count"])
    wanted = sum(row["record_count"] for row in deletes.to_pylist() if row["content"] == 1)
    found = 0
    for path in {row["file_path"] for row in deletes.to_pylist() if row["content"] == 1}:
        for number, child in enumerate(inspect_file(STORAGE, path).children):
            if child.kind == "blob":
                found += part_at(inspect_file(STORAGE, path, [number]), [number])[-1].details["deleted_rows"]
    assert found == wanted == 2
    index = next(path for path in files(warehouse / "a.db") if path.parent.name == "index")
    assert sum(part.details.get("deleted_rows", 0) for part in inspect_file(STORAGE, str(index)).children) == 7


def test_pages_hold_the_values_of_their_chunk(tmp_path):
    path = tmp_path / "f.parquet"
    pq.write_table(
        ROWS,
        path,
        row_group_size=1000,
        data_page_size=512,
        write_page_index=True,
        data_page_version="2.0",
        column_encoding={"id": "DELTA_BINARY_PACKED"},
        use_dictionary=["k", "s"],
    )
    footer = pq.read_metadata(path)
    for _, part in every_part(str(path)):
        check(part)
    tree = inspect_file(STORAGE, str(path))
    groups = [child for child in tree.children if child.kind == "row group"]
    assert [group.details["rows"] for group in groups] == [1000, 1000, 1000]
    assert groups[1].children[0].details["encodings"] == ["DELTA_BINARY_PACKED"]
    for number, column in enumerate(("id", "k", "s")):
        at = [2, number]
        chunk = part_at(inspect_file(STORAGE, str(path), at), at)[-1]
        assert chunk.name == column
        assert sum(page.details["values"] for page in chunk.children if page.kind == "data page") == 1000
        assert (chunk.end or 0) - (chunk.start or 0) == footer.row_group(1).column(number).total_compressed_size
        assert (chunk.children[0].start, chunk.children[-1].end) == (chunk.start, chunk.end)
    last = next(number for number, child in enumerate(tree.children) if child.kind == "footer")
    fields = part_at(inspect_file(STORAGE, str(path), [last]), [last])[-1].children
    assert {field.name: field.details.get("value") for field in fields}["num_rows"] == 3000


def test_damaged_files_end_in_an_entry_or_our_error(warehouse, tmp_path):
    chance = random.Random(7)
    seen = {}
    for path in files(warehouse):
        seen.setdefault(path.suffix + path.name[:8].rstrip("0123456789-"), path)
    for path in seen.values():
        data = path.read_bytes()
        for number in range(12):
            broken = bytearray(data)
            for _ in range(3):
                broken[chance.randrange(len(broken))] = chance.randrange(256)
            target = tmp_path / f"{number}"
            target.write_bytes(broken[: len(data) if number % 2 else chance.randrange(len(data))])
            for at in ((), (1,), (2,), (3, 0), (1, 0, 0)):
                try:
                    for part in part_at(inspect_file(STORAGE, str(target), at), at)[-1].children:
                        part.as_json()
                except SkerryError:
                    pass


def test_empty_and_foreign_files_are_shown_as_bytes(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert inspect_file(STORAGE, str(tmp_path / "empty")).details["size_bytes"] == 0
    (tmp_path / "text").write_bytes(b"hello")
    assert inspect_file(STORAGE, str(tmp_path / "text")).details["bytes"].replace(" ", "") == b"hello".hex()
