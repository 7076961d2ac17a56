"""What other writers leave in tables that Iceberg Java reads: made here by hand, and read as Java reads it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from urllib.parse import unquote, urlparse

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

import skerry
from skerry.errors import FormatError, SchemaError
from skerry.puffin import PuffinReader, PuffinWriter
from skerry.storage import Storage

ROWS = pa.table({"k": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]})
MARK = {"write.delete.mode": "merge-on-read"}


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


def path_of(location):
    return Path(unquote(urlparse(location).path))


def metadata_of(table):
    return json.loads(path_of(table.metadata_location).read_text())


def manifest_list_of(table):
    metadata = metadata_of(table)
    current = metadata["current-snapshot-id"]
    return path_of(next(s["manifest-list"] for s in metadata["snapshots"] if s["snapshot-id"] == current))


def rewrite(path, change_header=lambda header: None, change_record=lambda record: record, schema=lambda schema: schema):
    """Write an Avro file again with other header entries, records or schema."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        header, records = dict(reader.metadata), [change_record(record) for record in reader]
    written = schema(json.loads(header.pop("avro.schema")))
    header.pop("avro.codec", None)
    change_header(header)
    out = io.BytesIO()
    fastavro.writer(out, written, records, metadata=header)
    path.write_bytes(out.getvalue())
    return len(out.getvalue())


def manifests(table):
    with manifest_list_of(table).open("rb") as file:
        return list(fastavro.reader(file))


def set_lengths(table, change):
    rewrite(manifest_list_of(table), change_record=lambda r: {**r, "manifest_length": change(r["manifest_length"])})


def keys(catalog, name="d.t", **options):
    return sorted(catalog.load_table(name).scan(**options).to_arrow()["k"].to_pylist())


def test_manifests_that_do_not_say_their_content(catalog):
    """The manifest list says it; without a word in the header a delete manifest is still one."""
    table = catalog.create_table("d.t", ROWS.schema, properties=MARK)
    table.append(ROWS)
    table.delete("k = 2")
    assert {record["content"] for record in manifests(table)} == {0, 1}
    for record in manifests(table):
        rewrite(path_of(record["manifest_path"]), lambda header: header.pop("content"))
    set_lengths(table, lambda length: 1)
    assert keys(catalog) == [1, 3]


def test_lengths_of_manifests_that_only_the_list_has_wrong(catalog):
    table = catalog.create_table("d.t", ROWS.schema)
    table.append(ROWS)
    for change in (lambda length: length + 31, lambda length: 1):
        set_lengths(table, change)
        assert keys(catalog) == [1, 2, 3]
    manifest = path_of(manifests(table)[0]["manifest_path"])
    with manifest.open("rb") as file:
        reader = fastavro.reader(file)
        schema = json.loads(reader.metadata["avro.schema"])
        header = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    empty = io.BytesIO()
    fastavro.writer(empty, schema, [], metadata=header)  # as if it were cut off before its only block
    set_lengths(table, lambda length: 10_000)
    manifest.write_bytes(empty.getvalue())
    with pytest.raises(FormatError, match="the manifest list says 10000: 0 entries, the manifest list says 1"):
        keys(catalog)


def test_null_partitions_of_an_unpartitioned_table(catalog):
    table = catalog.create_table("d.t", ROWS.schema)
    table.append(ROWS)

    def optional(schema):
        data_file = next(field for field in schema["fields"] if field["name"] == "data_file")["type"]
        partition = next(field for field in data_file["fields"] if field["name"] == "partition")
        partition["type"] = ["null", partition["type"]]
        return schema

    def without(record):
        return {**record, "data_file": {**record["data_file"], "partition": None}}

    rewrite(path_of(manifests(table)[0]["manifest_path"]), change_record=without, schema=optional)
    set_lengths(table, lambda length: 1)
    assert keys(catalog) == [1, 2, 3]


def test_delete_files_whose_rows_are_counted_wrongly_or_name_nothing(catalog):
    table = catalog.create_table("d.t", ROWS.schema, properties=MARK)
    table.append(ROWS)
    data = next(iter(table.files())).location
    table.delete("k = 2")
    (record,) = [record for record in manifests(table) if record["content"] == 1]
    manifest = path_of(record["manifest_path"])
    with manifest.open("rb") as file:
        entry = next(iter(fastavro.reader(file)))
    deletes = path_of(entry["data_file"]["file_path"])
    stored = pq.read_schema(deletes)
    row = pa.field("row", pa.struct([("k", pa.int64())]), metadata={b"PARQUET:field_id": b"2147483544"})
    fields = [stored.field("file_path").with_nullable(True), stored.field("pos").with_nullable(True), row]
    found = pa.table([[data, None, data], [1, 7, 2], [None, None, None]], schema=pa.schema(fields))
    pq.write_table(found, deletes)  # one row in the metadata, three here; `row` is null, and so is a path

    def resized(record):
        return {**record, "data_file": {**record["data_file"], "file_size_in_bytes": deletes.stat().st_size}}

    rewrite(manifest, change_record=resized)
    set_lengths(table, lambda length: 1)
    assert keys(catalog) == [1]
    pq.write_table(pa.table([[data], [None], [None]], schema=pa.schema(fields)), deletes)
    with pytest.raises(FormatError, match="a position delete file has a null in pos"):
        keys(catalog)


NESTED = pa.schema(
    [
        ("k", pa.int64()),
        ("s", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        ("l", pa.list_(pa.struct([("c", pa.int64())]))),
        ("m", pa.map_(pa.string(), pa.int64())),
    ]
)
NESTED_ROWS = [{"k": 1, "s": {"a": 2, "b": "x"}, "l": [{"c": 3}, {"c": 4}], "m": [("y", 5)]}]


def replace_data(table, write):
    """Put another file in the place of the table's only data file."""
    (file,) = table.files()
    path = path_of(file.location)
    write(path)

    def resized(record):
        return {**record, "data_file": {**record["data_file"], "file_size_in_bytes": path.stat().st_size}}

    rewrite(path_of(manifests(table)[0]["manifest_path"]), change_record=resized)
    set_lengths(table, lambda length: 1)


def test_parquet_files_without_ids_are_read_by_position(catalog):
    table = catalog.create_table("d.t", NESTED)
    table.append(pa.Table.from_pylist(NESTED_ROWS, NESTED))
    named = pa.table(
        {
            "anything": pa.array([1], pa.int64()),
            "k": pa.array([{"p": 2, "q": "x"}], pa.struct([("p", pa.int64()), ("q", pa.string())])),
            "list": pa.array([[{"z": 3}, {"z": 4}]], pa.list_(pa.struct([("z", pa.int64())]))),
            "map": pa.array([[("y", 5)]], pa.map_(pa.string(), pa.int64())),
            "more": [7],
        }
    )
    replace_data(table, lambda path: pq.write_table(named, path))
    table = catalog.load_table("d.t")
    assert table.scan().to_arrow().to_pylist() == NESTED_ROWS
    assert table.scan(["s.b"], where="k = 1 AND s.a = 2").to_arrow().to_pylist() == [{"s": {"b": "x"}}]
    table.analyze()
    assert table.statistics()["k"].ndv == 1
    table.update_schema().add_column("new", pa.int64()).commit()  # its id is beyond the file's columns
    assert table.scan(["new"]).to_arrow()["new"].to_pylist() == [None]


def test_a_column_whose_position_has_another_type_is_refused(catalog):
    table = catalog.create_table("d.t", ROWS.schema)
    table.append(ROWS)
    replace_data(table, lambda path: pq.write_table(ROWS.select(["v", "k"]), path))
    with pytest.raises(SchemaError, match="column 'k' is string in the file, but int64 in the table"):
        catalog.load_table("d.t").scan().to_arrow()


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_orc_and_avro_files_without_ids_are_read_by_name(catalog, file_format):
    table = catalog.create_table("d.t", NESTED, file_format=file_format)
    table.append(pa.Table.from_pylist(NESTED_ROWS, NESTED))

    def write(path):
        if file_format == "orc":
            orc.write_table(pa.Table.from_pylist(NESTED_ROWS, NESTED).select(["m", "l", "s", "k"]), path)
            return
        record = {
            "type": "record",
            "name": "s",
            "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
        }
        element = {"type": "record", "name": "l", "fields": [{"name": "c", "type": "long"}]}
        fields = [
            {"name": "m", "type": {"type": "map", "values": "long"}},
            {"name": "l", "type": {"type": "array", "items": element}},
            {"name": "s", "type": record},
            {"name": "k", "type": "long"},
        ]
        with path.open("wb") as file:
            rows = [{**row, "m": dict(row["m"])} for row in NESTED_ROWS]
            fastavro.writer(file, {"type": "record", "name": "t", "fields": fields}, rows)

    replace_data(table, write)
    table = catalog.load_table("d.t")
    assert table.scan().to_arrow().to_pylist() == NESTED_ROWS
    assert table.scan(["l"]).to_arrow().to_pylist() == [{"l": NESTED_ROWS[0]["l"]}]


@pytest.mark.parametrize("version", [1, 2])
def test_statistics_whose_footer_and_metadata_differ(catalog, version):
    """The metadata decides which snapshot a blob is of; in version 1 its sequence number says nothing (Trino)."""
    table = catalog.create_table("d.t", ROWS.schema, format_version=version)
    table.append(ROWS)
    metadata = metadata_of(table)
    file = metadata["statistics"][0]
    path = path_of(file["statistics-path"])
    reader = PuffinReader(file["statistics-path"], storage=Storage())
    writer = PuffinWriter()
    for blob, data in zip(reader.blobs, reader.read_blobs(), strict=True):
        writer.add_blob(
            blob.type, data, fields=blob.fields, snapshot_id=17, sequence_number=42, properties=blob.properties
        )
    path.unlink()
    size, footer_size = writer.write(file["statistics-path"], storage=Storage())
    file |= {"file-size-in-bytes": size, "file-footer-size-in-bytes": footer_size}
    for blob in file["blob-metadata"]:
        blob["sequence-number"] = 42 if version == 1 else blob["sequence-number"]
    path_of(table.metadata_location).write_text(json.dumps(metadata))
    found = catalog.load_table("d.t").statistics()["k"]
    assert str(found.freshness) == "fresh"
    assert found.ndv == 3
    assert found.sketch.estimate() == 3
