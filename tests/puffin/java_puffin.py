"""Iceberg's Java Puffin classes, through Spark's JVM: writing and reading files, and making the samples in `data`.

`python tests/puffin/java_puffin.py` makes the samples again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skerry.puffin import BlobMetadata, FileMetadata

SAMPLES = Path(__file__).parent / "data"
JAVA_CODECS = {None: "NONE", "zstd": "ZSTD", "lz4": "LZ4"}


@dataclass(frozen=True)
class Content:
    """What a file holds, whoever writes it."""

    blobs: list[tuple[BlobMetadata, bytes]] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)


def described(name: str, field_id: int, codec: str | None) -> BlobMetadata:
    return BlobMetadata(name, (field_id,), 2, 1, 0, 0, codec)


def metric_data(codec: str | None) -> Content:
    return Content(
        [
            (described("some-blob", 1, codec), b"abcdefghi"),
            (described("some-other-blob", 2, codec), "some blob \0 binary data 🤯, not very very long".encode()),
        ],
        {"created-by": "Test 1234"},
    )


SAMPLE_CONTENTS = {
    "empty-puffin-uncompressed.bin": Content(),
    "sample-metric-data-uncompressed.bin": metric_data(None),
    "sample-metric-data-compressed-zstd.bin": metric_data("zstd"),
}


def write(jvm: Any, path: Path, content: Content) -> tuple[int, int]:
    """Write a file with Java; returns the size of the file and of its footer."""
    puffin = jvm.org.apache.iceberg.puffin
    builder = puffin.Puffin.write(jvm.org.apache.iceberg.Files.localOutput(str(path)))
    for name, value in content.properties.items():
        builder = builder.set(name, value)
    writer = builder.build()
    for blob, data in content.blobs:
        fields = jvm.java.util.ArrayList()
        for field_id in blob.fields:
            fields.add(field_id)
        properties = jvm.java.util.LinkedHashMap()
        for name, value in blob.properties.items():
            properties.put(name, value)
        codec = getattr(puffin.PuffinCompressionCodec, JAVA_CODECS[blob.compression_codec])
        buffer = jvm.java.nio.ByteBuffer.wrap(bytearray(data))
        writer.add(puffin.Blob(blob.type, fields, blob.snapshot_id, blob.sequence_number, buffer, codec, properties))
    writer.finish()
    sizes = (writer.fileSize(), writer.footerSize())
    writer.close()
    return sizes


def read(jvm: Any, path: Path, *, footer_size: int | None = None) -> tuple[FileMetadata, list[bytes]]:
    """Read a file with Java: its metadata and the contents of its blobs."""
    builder = jvm.org.apache.iceberg.puffin.Puffin.read(jvm.org.apache.iceberg.Files.localInput(str(path)))
    if footer_size is not None:
        builder = builder.withFileSize(path.stat().st_size).withFooterSize(footer_size)
    reader = builder.build()
    try:
        metadata = reader.fileMetadata()
        lists = jvm.org.apache.iceberg.relocated.com.google.common.collect.Lists
        pairs = lists.newArrayList(reader.readAll(metadata.blobs()))
        to_bytes = jvm.org.apache.iceberg.util.ByteBuffers.toByteArray
        contents = [bytes(to_bytes(pair.second())) for pair in pairs]
        blobs = tuple(
            BlobMetadata(
                blob.type(),
                tuple(blob.inputFields()),
                blob.snapshotId(),
                blob.sequenceNumber(),
                blob.offset(),
                blob.length(),
                blob.compressionCodec(),
                dict(blob.properties()),
            )
            for blob in metadata.blobs()
        )
        return FileMetadata(blobs, dict(metadata.properties())), contents
    finally:
        reader.close()


def main() -> None:
    import skerry.spark
    from skerry.spark.runtime.session import iceberg_packages

    spark = skerry.spark.session("samples", packages=iceberg_packages("4.1"))
    for name, content in SAMPLE_CONTENTS.items():
        write(spark._jvm, SAMPLES / name, content)
    spark.stop()


if __name__ == "__main__":
    main()
