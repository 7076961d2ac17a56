"""Small files of every kind that skerry reads, and how each is read: made within seconds, out of nothing."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import json
import os
import random
import shutil
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash
from fuzz_kinds import Kind
from fuzz_mutations import (
    Mutator,
    in_avro,
    in_json,
    in_parquet_footer,
    in_protobuf,
    keeping_length,
    of_bytes,
)
from paimon_answers import paimon_answers
from pyarrow.parquet.encryption import create_encryption_properties

import skerry
from skerry import amudai, puffin, theta, variant, wkb
from skerry.amudai.shard.checksum import checksum
from skerry.compression import compress_zstd, decompress_zstd
from skerry.databases.hive_metastore import HiveMetastore
from skerry.databases.thrift_binary import REPLY, ThriftList, encode_message, integer, list_of, record, text, texts
from skerry.databases.thrift_binary import Kind as ThriftKind
from skerry.encryption import KeyMetadata, decode_key_metadata, encode_gcm_stream, encode_key_metadata
from skerry.errors import FormatError, SkerryError
from skerry.http.http_client import Answer, HttpClient
from skerry.iceberg.catalogs import rest_server
from skerry.iceberg.catalogs.hive import HiveCatalog
from skerry.iceberg.catalogs.hive_tables import is_iceberg, new_hive_table
from skerry.iceberg.catalogs.records import MetadataWrite
from skerry.iceberg.catalogs.rest import RestCatalog
from skerry.iceberg.catalogs.rest_authentication import OAuth2
from skerry.iceberg.manifests.manifest_list import ManifestFile, decode_manifest_list, encode_manifest_list
from skerry.iceberg.manifests.reader import decode_manifest
from skerry.iceberg.metadata.metadata_json import decode_metadata, encode_metadata
from skerry.iceberg.writing.file_writers import FileEncoding, FileWriter
from skerry.iceberg.writing.shape_bounds import points_of
from skerry.kernels import cache as kernel_cache
from skerry.paimon.file_index import FileIndex, IndexedColumn, encode_container
from skerry.paimon.file_index.bloom import BloomFilterBuilder
from skerry.paimon.file_index.btree import BTreeIndex, KeyRange
from skerry.paimon.manifests.deletion_vectors import VectorBits, encode_vectors, find_vector
from skerry.paimon.manifests.hash_index import read_hashes
from skerry.paimon.manifests.index_manifest import IndexManifestEntry, read_index_manifest
from skerry.paimon.manifests.manifest import decode_entries, entries_of
from skerry.paimon.manifests.manifest_list import read_manifest_list as read_paimon_manifest_list
from skerry.paimon.metadata.consumers import find_consumer
from skerry.paimon.metadata.paths import TablePaths
from skerry.paimon.metadata.schema import decode_schema
from skerry.paimon.metadata.snapshot import decode_snapshot
from skerry.paimon.metadata.tags import decode_tag
from skerry.paimon.planning.splits import SplitFile
from skerry.paimon.reading.blob_columns import BlobColumn
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.blob_layout import BlobDescriptor
from skerry.paimon.values.types import AtomicType, TypeRoot, decode_type
from skerry.parquet import PagedChunk, read_metadata, read_places, take_rows
from skerry.puffin.deletion_vector import decode_deletion_vector, encode_deletion_vector
from skerry.storage import Storage
from skerry.table.files.data_file import DataFile, DeleteFile, DeleteKind
from skerry.table.files.row_deletes import RowDeletes
from skerry.table.files.scan_task import FileScanTask
from skerry.table.files.stored_files import open_stored
from skerry.table.indexes import registry
from skerry.table.indexes.definitions import IndexKind
from skerry.table.owned_files import OwnedFiles
from skerry.table.predicate import Column, Comparison, FieldMetrics, IntersectsExtent, IsNull, Operator, evaluate
from skerry.table.statistics.file_groups import SketchedFile, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.group_samples_layout import decode_group_samples
from skerry.table.statistics.group_sketches import decode_group_sketches
from skerry.table.statistics.pieces.layout import (
    decode_gone_rows,
    decode_sample_piece,
    encode_gone_rows,
    encode_sample_piece,
)
from skerry.table.statistics.pieces.sample_piece import SamplePiece
from skerry.table.statistics.row_sample import RowSample
from skerry.table.statistics.sketching import sketch_parquet
from skerry.table.work.batch_folder import BatchFolder
from skerry.variant.assembling import assemble
from skerry.variant.shredding import shred

__all__ = ["NAMES", "build"]

_STORAGE = Storage()
_WARM = 8
"""Samples of a kind that are read before any mutant."""
_JSON: tuple[Mutator, ...] = (in_json, in_json, in_json, of_bytes)
_AVRO: tuple[Mutator, ...] = (in_avro, in_avro, of_bytes)


NAMES = (
    "amudai",
    "amudai-index",
    "amudai-index-sealed",
    "amudai-messages",
    "amudai-parquet-pages",
    "amudai-sealed",
    "amudai-values",
    "avro",
    "changed-samples",
    "deletion-vector",
    "deletion-vector-counted",
    "deletion-vector-sealed",
    "encrypted-manifest-list",
    "encrypted-parquet",
    "equality-deletes",
    "gone-rows",
    "group-sketches",
    "hive-answer",
    "iceberg-manifest",
    "iceberg-manifest-list",
    "iceberg-metadata",
    "iceberg-table",
    "index-registry",
    "index-registry-sealed",
    "kernel-cache",
    "key-metadata",
    "manifest-cache",
    "orc",
    "paimon-b-tree",
    "paimon-binary-row",
    "paimon-blob-descriptor",
    "paimon-blob-file",
    "paimon-changelog",
    "paimon-consumer",
    "paimon-hash-index",
    "paimon-index-bitmap",
    "paimon-index-bloom-filter",
    "paimon-index-bsi",
    "paimon-index-manifest",
    "paimon-index-range-bitmap",
    "paimon-manifest",
    "paimon-manifest-list",
    "paimon-rest-answer",
    "paimon-schema",
    "paimon-snapshot",
    "paimon-table",
    "paimon-tag",
    "paimon-vectors-32",
    "paimon-vectors-32-sealed",
    "paimon-vectors-64",
    "paimon-vectors-64-sealed",
    "parquet",
    "parquet-rows",
    "parquet-sketch",
    "position-deletes",
    "puffin",
    "rest-answer",
    "samples",
    "theta",
    "theta-sample",
    "variant",
    "variant-shredded",
    "wkb",
    "wkb-bounds",
)
"""The kinds, known before they are made."""


def build(folder: Path) -> dict[str, Kind]:
    """All kinds by name.

    Args:
        folder: Where files may be made; faster in memory.
    """
    groups = (
        _theta,
        _vectors,
        _iceberg,
        _encrypted,
        _rest,
        _hive,
        _paimon,
        _paimon_indexes,
        _stored,
        _deletes,
        _shards,
        _shard_indexes,
        _registries,
        _caches,
        _variants,
        _shapes,
    )
    kinds: dict[str, Kind] = {}
    for group in groups:
        place = folder / group.__name__.strip("_")
        place.mkdir(parents=True, exist_ok=True)
        for kind in group(place):
            kinds[kind.name] = kind
            for index in range(min(len(kind.samples), _WARM)):
                kind.read(kind.samples[index], index)  # a sample is sound, and reading it has loaded what that needs
    return kinds


def _in_file(path: Path, read: Callable[[str], Any]) -> Callable[[bytes, int], Any]:
    """A reader of files as a reader of bytes; each process has a file of its own."""

    def read_bytes(data: bytes, _index: int) -> Any:
        place = path.with_name(f"{os.getpid()}-{path.name}")
        place.write_bytes(data)
        return read(str(place))

    return read_bytes


def _checked(rows: pa.Table | pa.RecordBatch) -> Any:
    """Rows whose buffers hold what they should; of pages PyArrow checks neither text nor the digits of decimals."""
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid as error:
        if "UTF8" not in str(error) and "does not fit in precision" not in str(error):
            raise
    return rows


# ---- rows ----

_FIELD_ID = b"PARQUET:field_id"


def _field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={_FIELD_ID: str(number).encode()})


_SCHEMA = pa.schema(
    [
        _field("id", pa.int64(), 1),
        _field("small", pa.int32(), 2),
        _field("price", pa.decimal128(9, 2), 3),
        _field("ratio", pa.float64(), 4),
        _field("flag", pa.bool_(), 5),
        _field("day", pa.date32(), 6),
        _field("at", pa.timestamp("us", "UTC"), 7),
        _field("word", pa.string(), 8),
        _field("data", pa.binary(), 9),
        _field("tags", pa.list_(_field("element", pa.string(), 11)), 10),
        _field("place", pa.struct([_field("x", pa.int32(), 13), _field("name", pa.string(), 14)]), 12),
        _field(
            "counts", pa.map_(_field("key", pa.string(), 16).with_nullable(False), _field("value", pa.int64(), 17)), 15
        ),
    ]
)
_FLAT = pa.schema([_SCHEMA.field(i) for i in range(9)])


def _rows(count: int, schema: pa.Schema = _SCHEMA, start: int = 0) -> pa.Table:
    numbers = range(start, start + count)

    def of(make: Callable[[int], Any]) -> list[Any]:
        return [None if i % 11 == 5 else make(i) for i in numbers]

    columns = {
        "id": list(numbers),
        "small": of(lambda i: i * 7919 % 1000),
        "price": of(lambda i: decimal.Decimal(i * 37 % 500) / 100),
        "ratio": of(lambda i: i / 7 if i % 5 else float("nan")),
        "flag": of(lambda i: i % 3 == 0),
        "day": of(lambda i: dt.date(2020, 1, 1) + dt.timedelta(i % 40)),
        "at": of(lambda i: dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(seconds=i * 977)),
        "word": of(lambda i: f"word {i % 13}"),
        "data": of(lambda i: bytes([i % 256]) * (i % 30)),
        "tags": of(lambda i: [f"t{k}" for k in range(i % 4)]),
        "place": of(lambda i: {"x": i, "name": f"n{i % 3}"}),
        "counts": of(lambda i: [(f"k{k}", k) for k in range(i % 3)]),
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


# ---- sketches and vectors ----


def _theta(_folder: Path) -> Iterator[Kind]:
    few, many = theta.ThetaSketch().update(pa.array(range(50))), theta.ThetaSketch(lg_k=8).update(pa.array(range(3000)))
    sketches = [theta.ThetaSketch(), theta.ThetaSketch().update(pa.array([1])), few, many]
    samples = [sketch.serialize(compressed=compressed) for sketch in sketches for compressed in (False, True)]

    def read(data: bytes, _index: int) -> Any:
        sketch = theta.ThetaSketch.deserialize(data)
        union = theta.union([sketch, few])
        theta.intersection([sketch, many])
        theta.difference(sketch, few)
        return sketch.estimate(), sketch.bounds(2), sketch.serialize(), union.serialize(compressed=True)

    yield Kind("theta", samples, read, share=300)
    yield Kind(
        "theta-sample", samples, lambda data, _: theta.Sample.deserialize(data).merge(theta.Sample()).hashes.tolist()
    )


def _vectors(_folder: Path) -> Iterator[Kind]:
    random = np.random.default_rng(3)
    sets = [
        np.zeros(0, np.int64),
        np.array([0, 5, 70_000, (1 << 32) - 1]),
        np.arange(10_000),
        np.unique(random.integers(0, 200_000, 9000)),
    ]
    blobs = [encode_deletion_vector(positions) for positions in sets]

    def sealed(data: bytes, _index: int) -> bytes:
        body = data[4:-4]
        return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))

    def read(data: bytes, _index: int) -> Any:
        return decode_deletion_vector(data).tolist()

    def read_few(data: bytes, index: int) -> Any:
        return decode_deletion_vector(data, cardinality=len(sets[index])).tolist()

    yield Kind("deletion-vector", blobs, read, is_protected=True)
    yield Kind("deletion-vector-sealed", blobs, read, seal=sealed, share=200)
    yield Kind("deletion-vector-counted", blobs, read_few, seal=sealed)
    for bits in VectorBits:
        files = [encode_vectors({"a": sets[1][:3], "b": positions}, bits) for positions in sets]

        def find(data: bytes, index: int, files: Any = files) -> Any:
            return [find_vector(data, meta, location="f").tolist() for meta in files[index][1]]

        def resealed(data: bytes, index: int, files: Any = files) -> bytes:
            out = bytearray(data)
            for meta in files[index][1]:
                if len(out) >= meta.offset + 4:
                    (length,) = struct.unpack_from(">I", out, meta.offset)
                    end = meta.offset + 4 + length
                    if end + 4 <= len(out):
                        out[end : end + 4] = struct.pack(">I", zlib.crc32(out[meta.offset + 4 : end]))
            return bytes(out)

        name = f"paimon-vectors-{bits.value}"
        yield Kind(name, [data for data, _ in files], find, is_protected=True)
        yield Kind(
            f"{name}-sealed", [data for data, _ in files], find, mutators=(keeping_length, of_bytes), seal=resealed
        )


# ---- variants ----


def _variants(folder: Path) -> Iterator[Kind]:
    """Columns of variants: each byte of metadata and values, and of Parquet files in which they are shredded."""
    documents = [
        {"id": i, "at": dt.datetime(2020, 1, 1), "tags": ["a", i, None], "o": {"x": i / 2, "y": "é" * i}, "d": b"12"}
        for i in range(6)
    ]
    values: list[Any] = [*documents, decimal.Decimal("1.25"), "x" * 70, [[{"id": 2**40}]], None]
    whole = pa.struct(
        [
            ("id", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("o", pa.struct([("x", pa.float64()), ("y", pa.string())])),
        ]
    )

    def column(pairs: Iterable[tuple[bytes, bytes]]) -> pa.Array:
        return pa.array([{"metadata": metadata, "value": value} for metadata, value in pairs], variant.VARIANT)

    def use(array: pa.Array) -> Any:
        variant.check(array)
        found = [variant.variant_get(array, "$.id", "long"), variant.variant_get(array, "$.o.y", "string")]
        again = assemble(shred(array, whole))
        variant.check(again)
        rows = again.to_pylist()
        return found, [variant.to_json(row["metadata"], row["value"]) for row in rows if row]

    def read(data: bytes, _index: int) -> Any:
        size = int.from_bytes(data[:2], "little")
        metadata, value = data[2 : 2 + size], data[2 + size :]
        return use(column([(metadata, value)] * 2)), variant.to_json(metadata, value)

    pairs = [variant.encode_variant(value) for value in values]
    samples = [len(metadata).to_bytes(2, "little") + metadata + value for metadata, value in pairs]
    yield Kind("variant", samples, read, share=300)

    named = {_FIELD_ID: b"1"}
    wanted = pa.schema([pa.field("v", variant.VARIANT, metadata={**named, b"variant": b"true"})])

    def read_file(path: str) -> Any:
        file = open_stored(_STORAGE, path, "parquet", wanted, None)
        batches = [batch for part in file.parts for batch in file.batches(part, 1000)]
        return [use(assemble(column)) for batch in batches for column in _checked(batch).columns]

    stored = shred(column(pairs), whole)
    shredded = pa.table([stored], schema=pa.schema([pa.field("v", stored.type, metadata=named)]))
    files = [_parquet(folder / "v.parquet", shredded), _parquet(folder / "w.parquet", shredded, compression="none")]
    yield Kind("variant-shredded", files, _in_file(folder / "read.parquet", read_file), share=60)


# ---- shapes ----


def _shapes(folder: Path) -> Iterator[Kind]:
    """Well-known binary, text beside it, and bounds in manifests."""

    def point(x: float, y: float, order: str = "<") -> bytes:
        return struct.pack(f"{order}BIdd", order == "<", 1, x, y)

    line = struct.pack("<BII4d", 1, 2, 2, 0, 1, 5, -2)
    polygon = struct.pack(">BIII6d", 0, 3, 1, 3, 0, 0, 4, 0, 0, 4)
    many = struct.pack("<BII", 1, 4, 2) + point(1, 2) + point(3, 4, ">")
    samples = [point(1, 2), line, polygon, many, struct.pack("<BII", 1, 7, 3) + line + many + polygon]

    def read(data: bytes, _index: int) -> Any:
        array = pa.array([data, None, data])
        boxes = wkb.boxes_of(array).edges, wkb.globe_boxes_of(array, wkb.Shapes(None, "spherical")).edges
        assert all(np.array_equal(edges[:, 0], edges[:, 2], equal_nan=True) for edges in boxes)
        return [edges[:, 0].tolist() for edges in boxes]

    yield Kind("wkb", samples, read, share=300)

    def read_bounds(data: bytes, _index: int) -> Any:
        lower, upper = data[: len(data) // 2], data[len(data) // 2 :]
        unknown = np.full(1, -1, np.int64)
        points = [points_of(pa.array([bound], pa.binary())) for bound in (lower, upper)]
        column = Column(1, ("g",), wkb.WkbType(wkb.Shapes()))
        test = IntersectsExtent(column, wkb.Box(0, 0, 1, 1))
        verdict = evaluate(test, lambda _: FieldMetrics(*points, unknown, unknown, unknown), 1)
        return bool(verdict.may[0]), bool(verdict.must[0])

    bounds = [struct.pack("<4d", -1, -1, 2, 2), struct.pack("<4d", 3, 3, 4, 4), struct.pack("<6d", 3, 3, 0, 4, 4, 0)]
    yield Kind("wkb-bounds", bounds, read_bounds)


# ---- Iceberg ----


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.rglob(pattern) if path.is_file())


def _iceberg(folder: Path) -> Iterator[Kind]:
    catalog = skerry.connect(folder / "lake")
    for name, properties in (
        ("a.two", {}),
        ("a.three", {"format-version": "3", "skerry.statistics.partition-sketch-bytes": "1000000"}),
    ):
        table = catalog.create_table(
            name,
            _SCHEMA,
            partition_by=["bucket(2, id)"] if name == "a.two" else ["flag"],
            properties={"write.delete.mode": "merge-on-read", "write.update.mode": "merge-on-read", **properties},
        )
        table.append(_rows(30))
        table.delete("id = 3 or id = 17")
        table.create_tag("t1")
    lake = folder / "lake"
    metadata = _files(lake, "*.metadata.json")
    yield _iceberg_metadata(lake, metadata)
    manifest_lists = [path.read_bytes() for path in _files(lake, "snap-*.avro")]
    manifests = [path for path in _files(lake, "*.avro") if not path.name.startswith("snap-")]
    yield Kind(
        "iceberg-manifest-list",
        manifest_lists,
        lambda data, _: decode_manifest_list(data, location="l"),
        _AVRO,
        share=150,
    )
    yield _iceberg_manifests(lake, manifest_lists, manifests)
    files = [path.read_bytes() for path in _files(lake, "*.puffin")] + [
        path.read_bytes() for path in _files(lake, "*.stats")
    ]
    writer = puffin.PuffinWriter()
    for codec in (None, "zstd", "lz4"):
        sketch = theta.ThetaSketch().update(pa.array(range(500))).serialize()
        writer.add_blob("x", sketch, fields=[1], snapshot_id=1, sequence_number=1, compression_codec=codec)
    writer.write(folder / "codecs.puffin", storage=_STORAGE)
    files.append((folder / "codecs.puffin").read_bytes())

    def read(path: str) -> Any:
        reader = puffin.read(path)
        return reader.blobs, reader.properties, reader.read_blobs()

    yield Kind("puffin", files, _in_file(folder / "read.puffin", read), (in_puffin_footer, of_bytes), share=150)
    yield from _samples(files)
    yield _whole_table("iceberg-table", lake, ["a.two", "a.three"])


def _encrypted(folder: Path) -> Iterator[Kind]:
    """Files of encrypted tables: whatever is changed in one, nothing else is read from it."""
    key = KeyMetadata(b"0123456789abcdef", b"prefix of a file")
    manifests = [ManifestFile(f"m{number}.avro", 100, 0, added_snapshot_id=1, sequence_number=1) for number in (1, 2)]
    counts = ("added_files_count", "existing_files_count", "deleted_files_count")
    rows = ("added_rows_count", "existing_rows_count", "deleted_rows_count")
    filled = [replace(manifest, min_sequence_number=1, **dict.fromkeys((*counts, *rows), 1)) for manifest in manifests]
    known = {"format_version": 2, "snapshot_id": 1, "sequence_number": 1}
    lists = [encode_manifest_list(filled[:count], **known).data for count in (1, 2)]
    yield Kind(
        "encrypted-manifest-list",
        [encode_gcm_stream(data, key) for data in lists],
        lambda data, _: decode_manifest_list(data, key, location="l"),
        is_protected=True,
    )
    lengths = (None, 5, 1 << 40)
    keys = [encode_key_metadata(replace(key, file_length=length)) for length in lengths]
    yield Kind("key-metadata", keys, lambda data, _: decode_key_metadata(data, location="k"))
    encryption = create_encryption_properties(key.key, aad_prefix=key.aad_prefix, store_aad_prefix=False)
    options: tuple[dict[str, Any], ...] = ({}, {"compression": "none"}, {"write_page_index": True})
    files = [
        _parquet(folder / f"{number}.parquet", _rows(300, _FLAT), encryption_properties=encryption, **option)
        for number, option in enumerate(options)
    ]

    def read(path: str) -> Any:
        file = open_stored(_STORAGE, path, "parquet", _FLAT, None, key_metadata=keys[0])
        return [repr(_checked(batch).to_pydict()) for part in file.parts for batch in file.batches(part, 1000)]

    yield Kind("encrypted-parquet", files, _in_file(folder / "read", read), is_protected=True, share=60)


def _rest(folder: Path) -> Iterator[Kind]:
    """What the server of a REST catalog says, without a network."""
    table = skerry.connect(folder / "lake").create_table("n.t", _SCHEMA, partition_by=["bucket(2, id)"])
    table.append(_rows(5))
    location = table.metadata_location
    vended = [{"prefix": "file:///", "config": {"s3.access-key-id": "a"}}, {"prefix": "s3://b/", "config": {}}]
    loaded = {
        "metadata-location": location,
        "metadata": json.loads(Path(location.removeprefix("file://")).read_bytes()),
        "config": {"token": "t", "s3.region": "r"},
        "storage-credentials": vended,
    }
    config = {"defaults": {"a": "b"}, "overrides": {"prefix": "p"}, "endpoints": None, "warehouse": "w"}
    failed = {"error": {"message": "no", "type": "CommitFailedException", "code": 409, "stack": ["a"]}}
    token = {"access_token": "a.b.c", "token_type": "bearer", "expires_in": 3600, "scope": "s"}

    class Canned(HttpClient):
        answers: Iterator[Answer] = iter(())

        def send(self, *_: Any) -> Answer:
            return next(self.answers, Answer(200, {}, b"{}"))

    client = Canned()
    options = {"uri": "http://127.0.0.1:1"}

    def opened(*answers: tuple[int, bytes]) -> RestCatalog:
        client.answers = iter([Answer(200, {}, b"{}"), *(Answer(status, {}, data) for status, data in answers)])
        return RestCatalog("c", options)

    def commit(data: bytes, status: int) -> Any:
        catalog = opened((200, json.dumps(loaded).encode()), (status, data))
        found = catalog.load_table(("n", "t"))
        return catalog.commit_table(found, (), (), MetadataWrite(OwnedFiles(_STORAGE))).metadata

    def configured(data: bytes) -> Any:
        client.answers = iter([Answer(200, {}, data)])
        return sorted(RestCatalog("c", options).properties)

    def logged_in(data: bytes) -> Any:
        client.answers = iter([Answer(200, {}, data)])
        return OAuth2(client, "http://127.0.0.1:1", credential="a:b").header()

    def load(data: bytes) -> Any:
        catalog = opened((200, data))
        found = catalog.load_table(("n", "t"))
        return found.metadata, sorted(catalog.storage_of(found).options)

    readers: list[tuple[Any, Callable[[bytes], Any]]] = [
        (loaded, load),
        (loaded, lambda data: commit(data, 200)),
        (failed, lambda data: refused(lambda: commit(data, 409))),
        (failed, lambda data: refused(lambda: opened((404, data)).table_exists(("n", "t")))),
        (config, configured),
        (token, logged_in),
        ({"namespaces": [["a"], ["b", "c"]]}, lambda data: opened((200, data)).list_namespaces()),
        (
            {"identifiers": [{"namespace": ["n"], "name": "t"}], "next-page-token": None},
            lambda data: opened((200, data)).list_tables(("n",)),
        ),
    ]
    samples = [json.dumps(sample).encode() for sample, _ in readers]

    def read(data: bytes, index: int) -> Any:
        with mock.patch.object(rest_server, "client_of", return_value=client):  # other tests have real servers
            return readers[index][1](data)

    yield Kind("rest-answer", samples, read, _JSON, share=200)
    yield Kind("paimon-rest-answer", *paimon_answers(folder), _JSON, share=200)


def _hive(folder: Path) -> Iterator[Kind]:
    """What a Hive metastore says, without a network."""
    table = skerry.connect(folder / "hive").create_table("n.t", _SCHEMA, format_version=3)
    table.append(_rows(5))
    location = table.metadata_location
    metadata = decode_metadata(Path(location.removeprefix("file://")).read_bytes())
    metadata = replace(metadata, properties={"encryption.key-id": "k"})
    Path(folder / "proved.metadata.json").write_bytes(encode_metadata(metadata))
    stored = new_hive_table(("n", "t"), metadata, f"file://{folder}/proved.metadata.json", "me")
    stored[99] = ThriftKind.SET, ThriftList(ThriftKind.I32, (1,))
    found = {1: record(stored)}
    names = {0: list_of(ThriftKind.STRING, [b"a", b"b"])}
    database = {0: record({1: text("n"), 3: text("file:///n"), 4: texts({"a": "b"})})}
    state = {0: record({1: integer(1 << 40, ThriftKind.I64), 2: integer(1)})}
    readers: list[tuple[str, Any, Callable[[HiveCatalog], Any]]] = [
        ("get_table_req", {0: record(found)}, lambda catalog: catalog.load_table(("n", "t")).metadata),
        ("get_table_req", {2: record({1: text("no")})}, lambda catalog: catalog.table_exists(("n", "t"))),
        (
            "get_table_objects_by_name_req",
            {0: record({1: list_of(ThriftKind.STRUCT, [stored])})},
            lambda catalog: [is_iceberg(one) for one in catalog.server.tables("n", ["t"])],
        ),
        ("get_all_databases", names, lambda catalog: catalog.list_namespaces()),
        ("get_database", database, lambda catalog: catalog.namespace_properties(("n",))),
        ("lock", state, lambda catalog: catalog.server.lock("n", "t", "me", "here")),
    ]

    class Canned(io.BytesIO):
        """A connection that answers whatever is asked."""

        def recv(self, length: int) -> bytes:
            return self.read(length)

        def sendall(self, _data: bytes) -> None: ...

        def settimeout(self, _seconds: float) -> None: ...

    def read(data: bytes, index: int) -> Any:
        catalog = HiveCatalog("c", {"uri": "thrift://127.0.0.1:1"})
        with mock.patch.object(HiveMetastore, "_connected", return_value=Canned(data)):
            return readers[index][2](catalog)

    yield Kind("hive-answer", [encode_message(name, fields, 1, REPLY) for name, fields, _ in readers], read, share=200)


def refused(act: Callable[[], Any]) -> Any:
    """What an act gives, or how it is refused."""
    try:
        return act()
    except SkerryError as error:
        return type(error)


def in_puffin_footer(rng: Any, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change the JSON of a plain footer; its length goes with it."""
    if len(data) < 16:
        return of_bytes(rng, data, others)
    (length,) = struct.unpack_from("<i", data, len(data) - 12)
    start = len(data) - 12 - length
    if not 0 < start < len(data):
        return of_bytes(rng, data, others)
    payload = in_json(rng, data[start:-12], others)
    return data[:start] + payload + struct.pack("<i", len(payload)) + data[-8:]


def _samples(files: Iterable[bytes]) -> Iterator[Kind]:
    """The regions of statistics files that belong to no blob."""
    found: dict[str, list[bytes]] = {"samples": [], "group-sketches": []}
    for data in files:
        (length,) = struct.unpack_from("<i", data, len(data) - 12)
        properties = json.loads(data[len(data) - 12 - length : -12]).get("properties", {})
        for name, regions in found.items():
            if (offset := properties.get(f"skerry.{name}.offset")) is not None:
                regions.append(data[int(offset) : int(offset) + int(properties[f"skerry.{name}.length"])])
    readers: dict[str, Callable[[bytes], Any]] = {
        "samples": decode_group_samples,
        "group-sketches": decode_group_sketches,
    }
    for name, regions in found.items():
        yield Kind(name, regions[-4:], lambda data, _, read=readers[name]: read(data), share=200)
    yield from _sample_pieces()


def _sample_pieces() -> Iterator[Kind]:
    """How samples differ from those before, and which of their rows are gone."""
    chance = random.Random(3)

    def sketched(name: str, count: int) -> SketchedFile:
        values = sorted(chance.randrange(1000) for _ in range(count))
        samples = {number: theta.Sample().update(pa.array(values)) for number in (1, 2)}
        table = pa.table({"1": values, "2": values})
        priorities = np.sort(np.array([chance.randrange(1 << 32) for _ in values], np.uint32))
        rows = RowSample(1 << 32, priorities, np.zeros(count, np.uint64), np.arange(count), table)
        return SketchedFile(name, name[0], count, samples, rows=rows)

    before = GroupSamples().with_files([sketched(f"{'abc'[number % 3]}{number}", 20) for number in range(9)])
    changes = [
        before.without_files(["a0", "b1"]),
        before.with_files([sketched("d", 3)]).bounded(4),
        before.with_deletes({key_of("a3"): 7, key_of("c5"): 1 << 63}),
    ]
    pieces = [piece for after in changes if (piece := SamplePiece.between(before, after)) is not None]

    def opened(data: bytes, header: int) -> bytes:
        """With the content of the frame, since most changes of a frame end before it is read."""
        return data[:header] + decompress_zstd(data[header:], max_bytes=1 << 20)

    def read(data: bytes, _: int) -> Any:
        return decode_sample_piece(data[:44] + compress_zstd(data[44:]), before.groups, None).applied_to(before)

    def read_gone(data: bytes, _: int) -> Any:
        return decode_gone_rows(data[:12] + compress_zstd(data[12:]), RowSample()).applied_to(RowSample())

    changed = [opened(encode_sample_piece(piece, before.groups), 44) for piece in pieces]
    yield Kind("changed-samples", changed, read, share=200)
    gone = [opened(encode_gone_rows(piece.rows), 12) for piece in pieces if piece.rows is not None]
    yield Kind("gone-rows", gone, read_gone, share=200)


def _iceberg_metadata(lake: Path, metadata: list[Path]) -> Kind:
    """Metadata files, read by a catalog that points at them."""
    newest = {path.parent: path for path in metadata}
    paths = list(newest.values())

    @cache
    def own(process: int) -> tuple[Any, list[Path]]:
        """A copy for each process, as the file that a table points at is the one that is changed."""
        place = lake.parent / f"metadata-{process}"
        place.mkdir(exist_ok=True)
        catalog = skerry.connect(place)
        catalog.create_namespace("a")
        copies = []
        for number, path in enumerate(paths):
            copies.append(place / f"{number}.metadata.json")
            shutil.copy(path, copies[-1])
            catalog.register_table(f"a.t{number}", str(copies[-1]))
        return catalog, copies

    def read(data: bytes, index: int) -> Any:
        catalog, copies = own(os.getpid())
        copies[index].write_bytes(data)
        table = catalog.load_table(f"a.t{index}")
        found = (table.schema, table.properties, table.snapshots(), table.refs(), table.history())
        return found, table.scan(where="id > 30").plan(), table.statistics()

    return Kind("iceberg-metadata", [path.read_bytes() for path in paths], read, _JSON, share=40)


def _iceberg_manifests(lake: Path, manifest_lists: list[bytes], manifests: list[Path]) -> Kind:
    known = {Path(m.manifest_path).name: m for data in manifest_lists for m in decode_manifest_list(data)}
    chosen = [path for path in manifests if path.name in known]
    listed = [
        ManifestFile(
            **{**{n: getattr(known[p.name], n) for n in ManifestFile.__dataclass_fields__}, "manifest_length": 0}
        )
        for p in chosen
    ]

    def read(data: bytes, index: int) -> Any:
        manifest = decode_manifest(data, listed[index])
        return manifest.schema, manifest.spec, list(manifest.entries())

    return Kind("iceberg-manifest", [path.read_bytes() for path in chosen], read, _AVRO, share=150)


def _whole_table(name: str, lake: Path, tables: Sequence[str]) -> Kind:
    """Tables of which any file but the catalog is changed, and which are read as users read them."""
    files = [path for path in _files(lake, "*") if "catalog.db" not in path.name and path.stat().st_size]
    paths = [path.relative_to(lake) for path in files]
    contents = [path.read_bytes() for path in files]

    @cache
    def own(_process: int) -> Any:
        for path, content in zip(files, contents, strict=True):  # a worker that died has left one changed
            path.write_bytes(content)
        return skerry.connect(lake)

    def read(data: bytes, index: int) -> Any:
        catalog = own(os.getpid())
        target = files[index]
        temporary = target.with_name(f".{os.getpid()}")
        try:
            temporary.write_bytes(data)
            os.replace(temporary, target)
            table = catalog.load_table(next(table for table in tables if _is_of(table, paths[index])))
            found = _checked(table.scan(where="id > 2 and word <> 'x'").to_arrow())
            if len(data) % 4 == 0:  # takes longer than all else
                found = (found, table.statistics()["id"].ndv, table.snapshots(), table.refs())
            return found
        finally:
            temporary.write_bytes(contents[index])
            os.replace(temporary, target)

    return Kind(name, contents, read, (_by_content,), share=25)


def _is_of(table: str, path: Path) -> bool:
    return table.partition(".")[2] in path.parts


def _by_content(rng: Any, data: bytes, others: Sequence[bytes]) -> bytes:
    """Change a file as what it begins with says."""
    if data.startswith(b"{"):
        return rng.choice(_JSON)(rng, data, others)
    if data.startswith(b"Obj\1"):
        return rng.choice(_AVRO)(rng, data, others)
    if data.startswith(b"PAR1"):
        return rng.choice((in_parquet_footer, of_bytes))(rng, data, others)
    if data.startswith(b"PFA1"):
        return rng.choice((in_puffin_footer, of_bytes))(rng, data, others)
    return of_bytes(rng, data, others)


# ---- Paimon ----

_PAIMON_OPTIONS: dict[str, dict[str, Any]] = {
    "append": {
        "partition_by": ["flag"],
        "properties": {
            "deletion-vectors.enabled": "true",
            "file-index.bloom-filter.columns": "id,word",
            "file-index.bloom-filter.id.items": "50",
            "file-index.bloom-filter.word.items": "50",
        },
    },
    "keyed": {"primary_key": ["id"], "properties": {"dynamic-bucket.target-row-num": "10"}},
    "changes": {
        "primary_key": ["id"],
        "properties": {"bucket": "1", "changelog-producer": "input", "file.format": "orc"},
    },
    "avro": {"primary_key": ["id"], "properties": {"bucket": "1", "file.format": "avro"}},
}


def _paimon(folder: Path) -> Iterator[Kind]:
    lake = folder / "lake"
    catalog = skerry.connect(lake)
    for name, options in _PAIMON_OPTIONS.items():
        schema = _FLAT if name == "avro" else _SCHEMA
        if "primary_key" in options:
            schema = schema.set(0, schema.field(0).with_nullable(False))
        table = catalog.create_table(f"p.{name}", schema, format="paimon", **options)
        table.append(_rows(25, schema))
        if name == "append":
            table.delete("id = 3 or id = 17")
        else:
            table.upsert(_rows(12, schema, start=20), on=["id"])
        table.create_tag("t1")
        table.analyze()
        consumers = lake / "p.db" / name / "consumer"
        consumers.mkdir()
        (consumers / "consumer-c1").write_text('{"nextSnapshot" : 2}')
    yield from _paimon_documents(folder, lake)
    yield from _paimon_manifests(folder, lake)
    yield _whole_table("paimon-table", lake, [f"p.{name}" for name in _PAIMON_OPTIONS])


def _some(paths: Sequence[Path], most: int = 12) -> list[bytes]:
    return [path.read_bytes() for path in paths[:: max(len(paths) // most, 1)]][:most]


def _paimon_documents(folder: Path, lake: Path) -> Iterator[Kind]:
    def changed(data: bytes, _index: int) -> Any:
        schema = decode_schema(data)
        return schema, schema.arrow_schema, schema.file_schema(), schema.key_arrow_fields

    yield Kind("paimon-schema", _some(_files(lake, "schema/schema-*")), changed, _JSON, share=200)
    snapshots = _some(_files(lake, "snapshot/snapshot-*"))
    yield Kind("paimon-snapshot", snapshots, lambda data, _: decode_snapshot(data), _JSON, share=200)
    changelogs = [data for data in snapshots if b"changelogManifestList" in data]
    yield Kind("paimon-changelog", changelogs, lambda data, _: decode_snapshot(data), _JSON)
    yield Kind("paimon-tag", _some(_files(lake, "tag/tag-*")), lambda data, _: decode_tag("t1", data), _JSON)
    root = folder / "consumers"
    (root / "consumer").mkdir(parents=True)

    def consumer(data: bytes, _index: int) -> Any:
        name = f"c{os.getpid()}"
        (root / "consumer" / f"consumer-{name}").write_bytes(data)
        return find_consumer(_STORAGE, TablePaths(str(root)), name)

    yield Kind("paimon-consumer", [b'{"nextSnapshot" : 2}', b'{\n  "nextSnapshot" : 17\n}'], consumer, _JSON)


def _paimon_manifests(folder: Path, lake: Path) -> Iterator[Kind]:
    lists = _some(_files(lake, "manifest/manifest-list-*"))
    read_list = _in_file(folder / "list", lambda path: read_paimon_manifest_list(_STORAGE, path))
    yield Kind("paimon-manifest-list", lists, read_list, _AVRO, share=150)
    manifests = _some([p for p in _files(lake, "manifest/manifest-*") if not p.name.startswith("manifest-list")])

    def entries(data: bytes, _index: int) -> Any:
        found = _checked(decode_entries(data))
        return found, entries_of(found)

    yield Kind("paimon-manifest", manifests, entries, _AVRO, share=150)
    index_manifests = _some(_files(lake, "manifest/index-manifest-*"))
    read_index = _in_file(folder / "index", lambda path: read_index_manifest(_STORAGE, path))
    yield Kind("paimon-index-manifest", index_manifests, read_index, _AVRO, share=150)


# ---- Paimon's indexes ----


def _paimon_indexes(folder: Path) -> Iterator[Kind]:
    hashes = np.arange(100, dtype=">i4").tobytes()
    entry = IndexManifestEntry(b"", 0, "HASH", "hash", 400, 100)
    read_index = _in_file(folder / "hash", lambda path: read_hashes(_STORAGE, path, entry).tolist())
    yield Kind("paimon-hash-index", [hashes], read_index)
    yield from _blobs(folder)
    yield _b_trees()
    for kind, samples in _indexes().items():

        def read(data: bytes, index: int, samples: Any = samples) -> Any:
            _, type_, arrow, literal, row_count = samples[index]
            column = Column(7, ("c",), arrow)
            found = FileIndex.decode(data, row_count, location="f")
            leaves = (
                Comparison(column, Operator.LE, literal),
                Comparison(column, Operator.EQ, literal),
                IsNull(column),
            )
            rows = [found.select(leaf, {7: IndexedColumn("c", type_)}) for leaf in leaves]
            for each in rows:
                assert each is None or len(each) == 0 or (each.min() >= 0 and each.max() < row_count)
            return [None if each is None else each.tolist() for each in rows]

        yield Kind(f"paimon-index-{kind}", [data for data, *_ in samples], read, share=150)
    yield _binary_rows()


def _b_trees() -> Kind:
    """Global indexes of a column of numbers, written by pypaimon."""
    folder = Path(__file__).parents[1] / "paimon" / "data" / "pypaimon" / "indexed" / "index"
    samples = [path.read_bytes() for path in sorted(folder.glob("btree-*")) if path.stat().st_size > 1000]
    assert samples

    def read(data: bytes, _index: int) -> Any:
        index = BTreeIndex(lambda offset, length: data[offset : offset + length], len(data), _NUMBER, "f")
        found = [index.row_ids([KeyRange(least, greatest)], 80) for least, greatest in ((3, 3), (50, 120), (None, 9))]
        return [None if rows is None else rows.tolist() for rows in found]

    def sealed(data: bytes, _index: int) -> bytes:
        """The first block of entries with its checksum, so that mutants of it are looked into."""
        if len(data) < 200:
            return data
        *_, offset, length, _, _, _, _ = struct.unpack("<QIQQIQIII", data[-52:])
        if offset + length + 5 > len(data) - 52:
            return data
        crc = zlib.crc32(data[offset + length : offset + length + 1], zlib.crc32(data[offset : offset + length]))
        return data[: offset + length + 1] + struct.pack("<I", crc) + data[offset + length + 5 :]

    return Kind("paimon-b-tree", samples, read, seal=sealed, share=150)


_NUMBER = AtomicType(TypeRoot.BIGINT)


def _blobs(folder: Path) -> Iterator[Kind]:
    """BLOB files, read as bytes, and descriptors."""
    schema = pa.schema([("id", pa.int64()), ("b", pa.large_binary())])
    options = {"row-tracking.enabled": "true", "data-evolution.enabled": "true", "blob-field": "b"}
    table = skerry.connect(folder / "blobs").create_table("b.t", schema, format="paimon", properties=options)
    table.append(pa.table({"id": range(6), "b": [b"a" * 300, None, b"", b"b", None, bytes(40)]}, schema=schema))
    (blob,) = (folder / "blobs").rglob("*.blob")
    row_count = 6

    def read(path: str) -> Any:
        file = SplitFile(path, "blob", os.path.getsize(path), row_count, 0, first_row_id=0, write_cols=("b",))
        column = BlobColumn.open(_STORAGE, [file], 0, row_count, as_descriptors=False)
        return [value for batch in column.batches(0, row_count, 4) for value in batch.to_pylist()]

    yield Kind("paimon-blob-file", [blob.read_bytes()], _in_file(folder / "blob", read), is_protected=True, share=150)
    descriptor = BlobDescriptor("file:///lake/t/bucket-0/data-1.blob", 4, 300)
    yield Kind("paimon-blob-descriptor", [descriptor.encode()], lambda data, _: BlobDescriptor.decode(data).offset)


def _indexes() -> dict[str, list[tuple[bytes, Any, pa.DataType, Any, int]]]:
    """Indexes with the type of their column, a value of it, and the rows of the file."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "paimon"))
    import plain_indexes as plain

    numbers = [3, -1, None, 3, 200, 7, -1] * 5
    texts = ["b", None, "a longer text", "b", "", "c"] * 5
    bloom = BloomFilterBuilder(plain.INT, items=10)
    bloom.update(pa.array(numbers, pa.int32()))
    made: dict[str, list[tuple[bytes | None, Any, Any, list[Any]]]] = {
        "bitmap": [
            (plain.bitmap_index(type_, values, version), type_, values[0], values)
            for type_, values in ((plain.INT, numbers), (plain.STRING, texts))
            for version in (1, 2)
        ],
        "bsi": [(plain.bsi_index(type_, numbers), type_, 3, numbers) for type_ in (plain.INT, plain.BIGINT)],
        "range-bitmap": [
            (plain.range_bitmap_index(type_, values), type_, values[0], values)
            for type_, values in ((plain.INT, numbers), (plain.STRING, texts))
        ],
        "bloom-filter": [(bloom.finish(), plain.INT, 3, numbers)],
    }
    return {
        kind: [
            (encode_container({"c": {kind: index}}), type_, plain.ARROW[type_], value, len(values))
            for index, type_, value, values in found
        ]
        for kind, found in made.items()
    }


def _binary_rows() -> Kind:
    types = [decode_type(text) for text in ("INT", "STRING", "DECIMAL(20, 2)", "TIMESTAMP(9)")]
    types += [decode_type({"type": "ARRAY", "element": "INT"}), decode_type("BIGINT")]
    columns = [
        pa.array([1, None, 3], pa.int32()),
        pa.array(["a", "a longer text", None]),
        pa.array([decimal.Decimal("1.50"), None, decimal.Decimal(10) ** 17], pa.decimal128(20, 2)),
        pa.array([1, None, 10**18], pa.timestamp("ns")),
        pa.array([[1, None], None, []], pa.list_(pa.int32())),
        pa.array([1, -1, None], pa.int64()),
    ]
    rows = encode_rows(types, columns).to_list()

    def read(data: bytes, _index: int) -> Any:
        return [_checked(pa.table({"c": array})) for array in decode_rows(types, [data, rows[0]])]

    return Kind("paimon-binary-row", rows, read, share=200)


# ---- data files ----


def _write(path: Path, rows: pa.Table, file_format: str, codec: str) -> bytes:
    writer = FileWriter(FileEncoding(file_format, codec), _STORAGE, str(path), rows.schema)
    writer.write(rows)
    writer.close({})
    return path.read_bytes()


def _parquet(path: Path, rows: pa.Table, **options: Any) -> bytes:
    pq.write_table(rows, path, row_group_size=150, **options)
    return path.read_bytes()


def _stored(folder: Path) -> Iterator[Kind]:
    rows, flat = _rows(300), _rows(300, _FLAT)
    parquet = [
        _parquet(folder / "a.parquet", rows),
        _parquet(folder / "b.parquet", flat, compression="none", write_page_index=True),
        _parquet(folder / "c.parquet", flat, compression="zstd", data_page_version="2.0", use_dictionary=False),
        _parquet(folder / "d.parquet", flat, compression="gzip", use_dictionary=False, column_encoding="PLAIN"),
        _parquet(folder / "e.parquet", flat, compression="lz4", data_page_size=200),
    ]
    yield Kind("parquet", parquet, _open(folder, "parquet"), (in_parquet_footer, of_bytes), share=60)
    yield Kind(
        "parquet-sketch", parquet, _in_file(folder / "s.parquet", _sketch), (in_parquet_footer, of_bytes), share=60
    )
    yield Kind(
        "parquet-rows", parquet, _in_file(folder / "r.parquet", _single_rows), (in_parquet_footer, of_bytes), share=60
    )
    orc = [_write(folder / f"{codec}.orc", rows, "orc", codec) for codec in ("zlib", "uncompressed", "zstd")]
    yield Kind("orc", orc, _open(folder, "orc"), (of_bytes,), share=60)
    avro = [_write(folder / f"{codec}.avro", rows, "avro", codec) for codec in ("null", "deflate", "zstandard")]
    yield Kind("avro", avro, _open(folder, "avro"), _AVRO, share=60)


def _single_rows(path: str) -> int:
    """Every seventh row of the flat columns, page by page."""
    count = 0
    for group in read_metadata(_STORAGE, path).row_groups:
        flat = [
            chunk for chunk in group.chunks if not chunk.column.max_repetition_level and len(chunk.column.path) == 1
        ]
        if not flat or not group.row_count:
            continue
        places = read_places(_STORAGE, path, flat)
        chunks = [PagedChunk(chunk, place) for chunk, place in zip(flat, places, strict=True)]
        for values in take_rows(_STORAGE, path, chunks, np.arange(0, group.row_count, 7)):
            values.validate(full=True)
            count += len(values)
    return count


def _open(folder: Path, file_format: str) -> Callable[[bytes, int], Any]:
    def read(path: str) -> Any:
        file = open_stored(_STORAGE, path, file_format, _SCHEMA, None)
        columns = [Column(int(field.metadata[_FIELD_ID]), (field.name,), field.type) for field in _FLAT]
        metrics = [file.metrics(column) for column in columns]
        count = 0
        for part in file.parts:
            for batch in file.batches(part, 1000):
                count += _checked(batch).num_rows
        return count, metrics

    return _in_file(folder / f"read.{file_format}", read)


def _sketch(path: str) -> Any:
    found = sketch_parquet(_STORAGE, path, _SCHEMA, [1, 2, 3, 4, 6, 7, 8, 9])
    return {number: sample.hashes.tolist() for number, sample in found.samples.items()}, found.null_value_counts


# ---- delete files ----


def _deletes(folder: Path) -> Iterator[Kind]:
    positions = pa.table(
        {"file_path": ["f1"] * 40 + ["f2"] * 40, "pos": [*range(0, 80, 2), *range(40)]},
        schema=pa.schema(
            [
                _field("file_path", pa.string(), 2147483546).with_nullable(False),
                _field("pos", pa.int64(), 2147483545).with_nullable(False),
            ]
        ),
    )
    keys = _rows(50, _FLAT).select(["id", "word", "price"])
    codecs = {"parquet": "zstd", "orc": "zlib", "avro": "deflate"}
    for name, rows in (("position-deletes", positions), ("equality-deletes", keys)):
        samples = [_write(folder / f"{name}.{kind}", rows, kind, codec) for kind, codec in codecs.items()]
        formats = list(codecs)

        def read(data: bytes, index: int, name: str = name, formats: Sequence[str] = formats) -> Any:
            path = folder / f"{os.getpid()}-{name}.{formats[index]}"
            path.write_bytes(data)
            task = FileScanTask(
                DataFile("f1", "parquet", 100, 1000), deletes=(_delete(name, path, formats[index], len(data)),)
            )
            found = RowDeletes(_STORAGE, _SCHEMA)
            if name == "position-deletes":
                return found.positions(task).tolist()
            return [_checked_keys(each) for each in found.keys(task)]

        yield Kind(name, samples, read, (_by_content,), share=60)


def _delete(name: str, path: Path, file_format: str, size: int) -> DeleteFile:
    if name == "position-deletes":
        return DeleteFile(DeleteKind.POSITIONS, str(path), file_format, 80, size)
    return DeleteFile(DeleteKind.KEYS, str(path), file_format, 50, size, equality_ids=(1, 8, 3))


def _checked_keys(found: Any) -> Any:
    return found


# ---- shards ----

_WRITINGS: tuple[dict[str, Any], ...] = (
    {"profile": "plain"},
    {"profile": "fast"},
    {},
    {"profile": "small"},
    {"profile": "high", "stripe_rows": 150},
    {"with_arrow_schema": False},
)


def _shards(folder: Path) -> Iterator[Kind]:
    rows = _rows(200)
    samples, spans = [], []
    for number, options in enumerate(_WRITINGS):
        path = folder / f"{number}.amudai.shard"
        amudai.write_table(rows, path, **options)
        samples.append(path.read_bytes())
        spans.append(_checksummed(path))
    read = _in_file(folder / "read.amudai.shard", _read_shard)

    def sealed(data: bytes, index: int) -> bytes:
        return _sealed(data, samples[index], spans[index])

    yield Kind("amudai", samples, read, (keeping_length, of_bytes), share=40)
    yield Kind(
        "amudai-values",
        samples,
        _in_file(folder / "v.amudai.shard", _values),
        (keeping_length, of_bytes),
        is_protected=True,
        share=40,
    )
    yield Kind("amudai-sealed", samples, read, (keeping_length,), seal=sealed, share=60)
    yield _messages(folder, samples)
    pq.write_table(_rows(60, _FLAT), folder / "x.parquet", row_group_size=40, data_page_size=200, write_page_index=True)
    amudai.write_over_parquet([folder / "x.parquet"], folder / "over.amudai.shard")

    def over(data: bytes, _index: int) -> Any:
        place = folder / f"over-{os.getpid()}"
        place.mkdir(exist_ok=True)
        (place / "x.parquet").write_bytes(data)
        shutil.copy(folder / "over.amudai.shard", place / "o.amudai.shard")
        return _read_shard(str(place / "o.amudai.shard"))

    yield Kind(
        "amudai-parquet-pages", [(folder / "x.parquet").read_bytes()], over, (keeping_length, of_bytes), share=25
    )


def _shard_indexes(folder: Path) -> Iterator[Kind]:
    """Files of indexes: a mutant may cost time, and must not change what is found."""
    words = [f"word{number % 7} 10.0.0.{number % 9} row{number}" for number in range(150)]
    rows = pa.table({"id": range(150), "text": words})
    indexes = [amudai.HashIndex(["id", "text"]), amudai.TextIndex({"text": "unicode-log"})]
    written = amudai.write_table(rows, folder / "rows.amudai.shard", indexes=indexes, stripe_rows=100)
    files = [Path(file) for file in written.index_files]
    samples = [file.read_bytes() for file in files]
    spans = [_checksummed(file) for file in files]

    def read(data: bytes, index: int) -> Any:
        place = folder / f"{os.getpid()}"
        if not place.exists():
            place.mkdir()
            for file in (folder / "rows.amudai.shard", *files):
                shutil.copy(file, place)
        (place / files[index].name).write_bytes(data)
        try:
            shard = amudai.ShardFile(place / "rows.amudai.shard")
            filters = [[("id", "in", [3, 77, 140])], [("text", "=", words[9])]]
            found = [shard.read(filters=filters, columns=["id"], use_threads=False)]
            queries = ("word3", "row1*", '"word1 10.0.0.1" OR row149', "10.0.*")
            found += [shard.search("text", query, columns=["id"]) for query in queries]
            return [table["id"].to_pylist() for table in found]
        finally:
            (place / files[index].name).write_bytes(samples[index])

    def sealed(data: bytes, index: int) -> bytes:
        return _sealed(data, samples[index], spans[index])

    yield Kind("amudai-index", samples, read, (keeping_length, of_bytes), is_protected=True, share=40)
    yield Kind("amudai-index-sealed", samples, read, (keeping_length,), seal=sealed, share=60)


def _registries(_folder: Path) -> Iterator[Kind]:
    """Pieces of the index registry, with a sound checksum too."""
    columns = (
        registry.IndexedColumn(1, "id", IndexKind.HASH),
        registry.IndexedColumn(7, "line", IndexKind.TEXT, "unicode-log"),
    )
    files = [
        registry.IndexedFile(f"data/{n}.parquet", 100 + n, f"{n}.amudai.shard", ("a.part0.amudai.shard",), 9, columns)
        for n in range(3)
    ]
    samples = [registry.encode_piece(registry.Piece(tuple(files[:count]), frozenset({"1-a.json"}))) for count in (1, 3)]

    def read(data: bytes, _index: int) -> Any:
        return registry._decode_piece(data, "piece")

    def sealed(data: bytes, _index: int) -> bytes:
        body = data.rpartition(b"\n")[0]
        return body + b"\n" + xxhash.xxh3_64_hexdigest(body).encode()

    yield Kind("index-registry", samples, read, (of_bytes,), is_protected=True)
    yield Kind("index-registry-sealed", samples, read, (of_bytes,), seal=sealed)


def _sealed(data: bytes, sample: bytes, spans: list[tuple[int, int]]) -> bytes:
    """A mutant whose checksums follow what was changed."""
    out = bytearray(data)
    for start, end in spans:
        if out[start:end] != sample[start:end]:
            out[end : end + 4] = struct.pack("<I", checksum(bytes(out[start:end])))
    return bytes(out)


def _shard_filter(schema: pa.Schema) -> list[list[tuple[str, str, Any]]]:
    texts = [("id", ">", 20), ("word", "in", ["word 3", "word 4"])]
    if schema.field("price").type != _SCHEMA.field("price").type:  # PyArrow does not compare what such columns read as
        return [texts, [("small", "=", 7), ("ratio", "!=", 1.0)]]
    moment = dt.datetime(2020, 1, 1, 5, tzinfo=dt.UTC)
    return [texts, [("price", "<", decimal.Decimal("0.50")), ("ratio", "!=", 1.0), ("at", ">", moment)]]


def _values(path: str) -> Any:
    return amudai.read_table(path, use_threads=False).replace_schema_metadata().to_pylist().__repr__()


def _read_shard(path: str) -> Any:
    shard = amudai.ShardFile(path)
    found = _checked(shard.read(use_threads=False))
    if {"id", "word", "price", "ratio", "at", "small"} <= set(shard.schema.names):
        shard.read(columns=["id"], filters=_shard_filter(shard.schema), use_threads=False)
    shard.take([0, 7, 1])
    statistics = [shard.statistics(name) for name in shard.schema.names]
    return found.num_rows, statistics, shard.properties


def _checksummed(path: Path) -> list[tuple[int, int]]:
    """Where in a shard lies what a checksum follows: found by reading, as nothing else tells."""
    data, seen = path.read_bytes(), []
    modules = [
        m
        for name, m in sys.modules.items()
        if name.startswith("skerry.amudai") and getattr(m, "checksum", None) is checksum
    ]

    def noting(content: Any) -> int:
        seen.append(bytes(content))
        return checksum(content)

    for module in modules:
        module.checksum = noting  # type: ignore[attr-defined]
    try:
        shard = amudai.ShardFile(path)
        if "price" in shard.schema.names:
            shard.read(use_threads=False, filters=_shard_filter(shard.schema))
        shard.read(use_threads=False)
        for name in shard.schema.names:
            shard.statistics(name)
    finally:
        for module in modules:
            module.checksum = checksum  # type: ignore[attr-defined]
    found = set()
    for content in set(seen):
        whole = content + struct.pack("<I", checksum(content))
        at = data.find(whole)
        while at >= 0:
            found.add((at, at + len(content)))
            at = data.find(whole, at + 1)
    return sorted(found)


def _messages(folder: Path, samples: Sequence[bytes]) -> Kind:
    """Shards of whose messages one is another, of whatever length, with all that leads to it as it should be."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "amudai"))
    from altered_shards import take_apart

    def changed(rng: Any, data: bytes, others: Sequence[bytes]) -> bytes:
        source, target = folder / f"{os.getpid()}-m.shard", folder / f"{os.getpid()}-n.shard"
        source.write_bytes(data)
        parts = take_apart(str(source))
        lists = [*parts.fields, parts.shard_fields]
        chosen = [(fields, at) for fields in lists for at, message in enumerate(fields) if message is not None]
        places: list[tuple[Any, Any]] = [
            *chosen,
            *[(parts, name) for name in ("directory", "stripes", "properties")] * 8,
        ]
        holder, key = rng.choice(places)
        message = getattr(holder, key) if isinstance(key, str) else holder[key]
        for _ in range(20):
            payload = in_protobuf(rng, message.SerializeToString(), others)
            try:
                other = type(message).FromString(payload)
                break
            except Exception:  # not a message: the frame alone would be read
                continue
        else:
            return data
        if isinstance(key, str):
            setattr(holder, key, other)
        else:
            holder[key] = other
        try:
            parts.seal(target)
        except (ValueError, FormatError):
            return data
        return target.read_bytes()

    read = _in_file(folder / "read-messages.amudai.shard", _read_shard)
    return Kind("amudai-messages", samples, read, (changed,), share=40)


# ---- caches ----


def _caches(folder: Path) -> Iterator[Kind]:
    module = kernel_cache.CompiledModule(b"object code" * 50, ("memcpy", "memset"))
    kernel_cache.write_module(folder / "k.o", module)

    def kernels(path: str) -> Any:
        return kernel_cache.read_module(Path(path)) or module  # None: it is compiled again

    yield Kind("kernel-cache", [(folder / "k.o").read_bytes()], _in_file(folder / "r.o", kernels), is_protected=True)
    batch = _rows(30, _FLAT).combine_chunks().to_batches()[0]
    BatchFolder(folder / "batches", 1 << 24).write("key", batch)

    def batches(data: bytes, _index: int) -> Any:
        key = f"k{os.getpid()}"
        (folder / "batches" / f"{key}.arrow").write_bytes(data)
        found = BatchFolder(folder / "batches", 1 << 24).read(key) or batch  # None: it is decoded again
        return found.serialize().to_pybytes()

    yield Kind("manifest-cache", [(folder / "batches" / "key.arrow").read_bytes()], batches, is_protected=True)
