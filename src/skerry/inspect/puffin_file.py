"""A Puffin file: its blobs, what they say, and its footer.

Spec: Puffin spec, File structure, Footer structure, Blob types.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from skerry.entry import Entry
from skerry.errors import SkerryError
from skerry.inspect.values import shown
from skerry.puffin import BlobMetadata, PuffinReader
from skerry.puffin.deletion_vector import decode_deletion_vector
from skerry.storage import Storage
from skerry.theta import ThetaSketch

__all__ = ["inspect_puffin"]

_MAGIC_BYTES: Final = 4
_SIZE_BYTES: Final = 4
_FLAG_BYTES: Final = 4
_REGIONS: Final = (
    ("skerry.samples", "of columns and groups of files"),
    ("skerry.changed-samples", "how they differ from those before"),
    ("skerry.added-samples", "of added files"),
    ("skerry.gone-rows", "rows by chance that are gone"),
    ("skerry.group-sketches", "of groups of files"),
    ("skerry.row-sample", "rows by chance"),
)


def inspect_puffin(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into a Puffin file; the blob on the way is decoded.

    Args:
        storage: Access to the file.
        location: The file.
        at: The way to a part.

    Raises:
        FormatError: The file is unsound.
    """
    file = PuffinReader(location, storage=storage)
    parts = [Entry("magic", "PFA1", {}, location, 0, _MAGIC_BYTES)]
    parts += [_blob(location, blob) for blob in file.blobs]
    parts += _samples(location, file)
    parts.sort(key=lambda part: part.start or 0)
    parts += _footer(location, file)
    if at and 0 <= at[0] < len(parts) and parts[at[0]].kind == "blob":
        chosen = parts[at[0]]
        blob = next(blob for blob in file.blobs if blob.offset == chosen.start and blob.type == chosen.name)
        parts[at[0]] = _decoded(file, blob, chosen)
    details = {"blobs": len(file.blobs), "size_bytes": file.file_size, "properties": dict(file.properties)}
    return Entry("Puffin file", "", details, location, 0, file.file_size, tuple(parts))


def _blob(location: str, blob: BlobMetadata) -> Entry:
    details: dict[str, Any] = {
        "fields": list(blob.fields),
        "snapshot_id": blob.snapshot_id,
        "sequence_number": blob.sequence_number,
        "codec": blob.compression_codec or "none",
        **{name: shown(value) for name, value in blob.properties.items()},
    }
    return Entry("blob", blob.type, details, location, blob.offset, blob.offset + blob.length)


def _samples(location: str, file: PuffinReader) -> list[Entry]:
    """What skerry keeps outside of blobs. Spec: docs/formats/samples.md."""
    found = []
    for name, label in _REGIONS:
        offset, length = (file.properties.get(f"{name}.{what}", "") for what in ("offset", "length"))
        if offset.isdecimal() and length.isdecimal() and int(offset) + int(length) <= file.file_size:
            kind = name.removeprefix("skerry.").replace("-", " ")
            found.append(Entry(kind, label, {}, location, int(offset), int(offset) + int(length)))
    return found


def _footer(location: str, file: PuffinReader) -> list[Entry]:
    end = file.file_size
    start = end - file.footer_size
    flags = end - _MAGIC_BYTES - _FLAG_BYTES
    size = flags - _SIZE_BYTES
    return [
        Entry("magic", "PFA1", {}, location, start, start + _MAGIC_BYTES),
        Entry("footer", "FooterPayload", {"blobs": len(file.blobs)}, location, start + _MAGIC_BYTES, size),
        Entry(
            "trailer", "FooterPayloadSize", {"value": size - start - _MAGIC_BYTES}, location, size, size + _SIZE_BYTES
        ),
        Entry("trailer", "Flags", {}, location, flags, end - _MAGIC_BYTES),
        Entry("magic", "PFA1", {}, location, end - _MAGIC_BYTES, end),
    ]


def _decoded(file: PuffinReader, blob: BlobMetadata, entry: Entry) -> Entry:
    """A blob with what its content says."""
    decode = _TYPES.get(blob.type)
    if decode is None:
        return entry
    try:
        details, fields = decode(file.read_blob(blob))
    except SkerryError as error:
        entry.details["error"] = str(error)
        return entry
    entry.details.update(details)
    is_stored = blob.compression_codec is None
    parts = []
    for name, meaning, start, end in fields:
        place = (blob.offset + start, blob.offset + end) if is_stored else (None, None)
        said = {"meaning": meaning} if is_stored else {"meaning": meaning, "in_blob": f"{start:,} to {end:,}"}
        parts.append(Entry("field", name, said, file.location, *place))
    return entry.with_children(tuple(parts))


_Field = tuple[str, str, int, int]


def _theta(data: bytes) -> tuple[dict[str, Any], list[_Field]]:
    """A compact Theta sketch. `skerry.theta.layout` lists its bytes."""
    sketch = ThetaSketch.deserialize(data)
    lower, upper = sketch.bounds(2)
    words = data[0] & 0x3F
    fields = [
        ("preamble", f"{words} words of 8 bytes, serial version {data[1]}, family {data[2]}", 0, min(8, len(data))),
    ]
    if words > 1:
        fields.append(("count", "number of hashes, and a sampling rate", 8, 16))
    if words > 2:
        fields.append(("theta", "hashes below it are kept", 16, 24))
    fields.append(("hashes", "64 bits each, ascending", 8 * words, len(data)))
    said = {"estimate": round(sketch.estimate(), 1), "lower": round(lower, 1), "upper": round(upper, 1)}
    return said, fields


def _vector(data: bytes) -> tuple[dict[str, Any], list[_Field]]:
    """A deletion vector. `skerry.puffin.deletion_vector` reads it."""
    positions = decode_deletion_vector(data)
    said: dict[str, Any] = {"deleted_rows": len(positions)}
    if len(positions):
        said |= {"first": int(positions[0]), "last": int(positions[-1])}
    fields = [
        ("length", "of magic and bitmap, big-endian", 0, 4),
        ("magic", "d1d33964", 4, 8),
        ("bitmap", "64-bit Roaring bitmap of positions", 8, len(data) - 4),
        ("checksum", "CRC-32 of magic and bitmap, big-endian", len(data) - 4, len(data)),
    ]
    return said, fields


_TYPES: Final[dict[str, Callable[[bytes], tuple[dict[str, Any], list[_Field]]]]] = {
    "apache-datasketches-theta-v1": _theta,
    "deletion-vector-v1": _vector,
}
