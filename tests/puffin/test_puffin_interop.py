"""Puffin files of other programs and for other programs: Iceberg's Java classes and PyIceberg."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import java_puffin
import pytest
from java_puffin import SAMPLE_CONTENTS, SAMPLES, Content
from pyiceberg.table.puffin import PuffinFile

from skerry import puffin
from skerry.errors import FormatError, UnsupportedError
from skerry.puffin import BlobMetadata, PuffinReader, PuffinWriter
from skerry.storage import Storage

FIRST = BlobMetadata("apache-datasketches-theta-v1", (3, 1, 2), 2**62 + 1, 2**40, 0, 0, "zstd", {"ndv": "7", "é": "😀"})
MANY = Content(
    [
        (FIRST, b"sketch" * 500),
        (
            BlobMetadata("deletion-vector-v1", (2147483546,), -1, -1, 0, 0, None, {"cardinality": "1"}),
            bytes(range(256)),
        ),
        (BlobMetadata("of another kind", (), 0, 0, 0, 0, None), b""),
    ],
    {"created-by": "somebody 1.0", "note": 'line\nbreak \\ "quote"'},
)


def without_place(blob: BlobMetadata) -> BlobMetadata:
    return replace(blob, offset=0, length=0)


def write(path: Path, content: Content, *, compress_footer: bool = False) -> tuple[int, int]:
    writer = PuffinWriter(content.properties, compress_footer=compress_footer)
    for blob, data in content.blobs:
        writer.add_blob(
            blob.type,
            data,
            fields=blob.fields,
            snapshot_id=blob.snapshot_id,
            sequence_number=blob.sequence_number,
            compression_codec=blob.compression_codec,
            properties=blob.properties,
        )
    return writer.write(str(path), storage=Storage())


def assert_holds(reader: PuffinReader, content: Content) -> None:
    assert [without_place(blob) for blob in reader.blobs] == [blob for blob, _ in content.blobs]
    assert reader.read_blobs() == [data for _, data in content.blobs]
    assert [reader.read_blob(blob) for blob in reader.blobs] == [data for _, data in content.blobs]
    assert reader.properties == content.properties


@pytest.mark.parametrize("name", SAMPLE_CONTENTS)
def test_samples_by_java(name: str) -> None:
    assert_holds(puffin.read(SAMPLES / name), SAMPLE_CONTENTS[name])


@pytest.mark.parametrize("name", ["empty-puffin-uncompressed.bin", "sample-metric-data-uncompressed.bin"])
def test_the_same_content_gives_the_same_blobs_and_footer_as_java(name: str) -> None:
    """Java names no writer in the empty sample; otherwise every byte is the same."""
    writer = PuffinWriter()
    writer.properties.clear()
    writer.properties.update(SAMPLE_CONTENTS[name].properties)
    for blob, data in SAMPLE_CONTENTS[name].blobs:
        writer.add_blob(
            blob.type,
            data,
            fields=blob.fields,
            snapshot_id=blob.snapshot_id,
            sequence_number=blob.sequence_number,
            compression_codec=None,
        )
    assert writer.finish()[0] == (SAMPLES / name).read_bytes()


@pytest.mark.parametrize("name", SAMPLE_CONTENTS)
def test_every_damage_to_samples_is_harmless_or_refused(name: str, tmp_path: Path) -> None:
    data = (SAMPLES / name).read_bytes()
    storage, location = Storage(), f"memory:///puffin-samples/{name}"
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        storage.write(location, bytes(damaged), overwrite=True)
        try:
            PuffinReader(location, storage=storage).read_blobs()
        except (FormatError, UnsupportedError):
            continue


def test_pyiceberg_reads_ours(tmp_path: Path) -> None:
    path = tmp_path / "ours.puffin"
    write(path, MANY)
    theirs = PuffinFile(path.read_bytes())
    assert theirs.footer.properties == MANY.properties
    for blob, (expected, data) in zip(theirs.footer.blobs, MANY.blobs, strict=True):
        assert theirs.get_blob_payload(blob) == data
        assert (blob.type, tuple(blob.fields), blob.snapshot_id, blob.sequence_number) == (
            expected.type,
            expected.fields,
            expected.snapshot_id,
            expected.sequence_number,
        )
        assert (blob.compression_codec, blob.properties) == (expected.compression_codec, expected.properties)


@pytest.mark.spark
@pytest.mark.parametrize("name", SAMPLE_CONTENTS)
def test_java_still_writes_the_samples(spark: Any, name: str, tmp_path: Path) -> None:
    java_puffin.write(spark._jvm, tmp_path / name, SAMPLE_CONTENTS[name])
    assert (tmp_path / name).read_bytes() == (SAMPLES / name).read_bytes()


@pytest.mark.spark
def test_we_read_what_java_writes(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "java.puffin"
    file_size, footer_size = java_puffin.write(spark._jvm, path, MANY)
    reader = puffin.read(path)
    assert_holds(reader, MANY)
    assert (reader.file_size, reader.footer_size) == (file_size, footer_size)
    assert (
        PuffinReader(str(path), storage=Storage(), file_size=file_size, footer_size=footer_size).blobs == reader.blobs
    )


@pytest.mark.spark
@pytest.mark.parametrize("with_footer_size", [False, True])
def test_java_reads_what_we_write(spark: Any, tmp_path: Path, with_footer_size: bool) -> None:
    path = tmp_path / "ours.puffin"
    _, footer_size = write(path, MANY)
    metadata, contents = java_puffin.read(spark._jvm, path, footer_size=footer_size if with_footer_size else None)
    ours = puffin.read(path)
    assert metadata == ours.file_metadata
    assert contents == [data for _, data in MANY.blobs]


@pytest.mark.spark
def test_java_passes_over_a_region_outside_of_blobs(spark: Any, tmp_path: Path) -> None:
    writer = PuffinWriter()
    writer.add_blob("a", b"one", fields=[1], snapshot_id=1, sequence_number=1)
    offset, _ = writer.add_region(bytes(1000))
    writer.properties["region"] = str(offset)
    writer.add_blob("b", b"two", fields=[1], snapshot_id=1, sequence_number=1)
    path = tmp_path / "region.puffin"
    writer.write(str(path), storage=Storage())
    metadata, contents = java_puffin.read(spark._jvm, path)
    assert contents == [b"one", b"two"]
    assert metadata.properties["region"] == str(offset)


@pytest.mark.spark
def test_java_refuses_what_we_write_only_on_request(spark: Any, tmp_path: Path) -> None:
    """Why a plain footer and zstd are the defaults: Java reads neither LZ4 blobs nor compressed footers."""
    compressed = tmp_path / "footer.puffin"
    write(compressed, MANY, compress_footer=True)
    assert_holds(puffin.read(compressed), MANY)
    lz4 = tmp_path / "lz4.puffin"
    write(lz4, Content([(replace(FIRST, compression_codec="lz4"), b"x" * 99)]))
    assert puffin.read(lz4).read_blobs() == [b"x" * 99]
    for path in (compressed, lz4):
        with pytest.raises(Exception, match="Unsupported codec: LZ4"):
            java_puffin.read(spark._jvm, path)
