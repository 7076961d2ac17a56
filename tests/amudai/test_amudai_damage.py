"""Damaged and hostile shards: each is answered by a clean error, and nothing else is opened or allocated."""

from __future__ import annotations

import contextlib
import random
import re
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from altered_shards import Parts, take_apart, written
from golden_shards import SHARED, SHIPPED

from skerry import amudai
from skerry.amudai.messages import BufferKind, ShardDirectory
from skerry.amudai.shard.directory import encode_directory
from skerry.amudai.shard.framing import encode_message
from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.storage import Storage

SMALL = sorted(path for path in SHIPPED.glob("*/data.amudai.shard") if path.stat().st_size < 45_000)
TABLE = pa.table(
    {"n": pa.array(range(300), pa.int64()), "s": [str(i % 9) for i in range(300)], "l": [[1], [2, 3]] * 150}
)


def _read(path: object) -> pa.Table:
    file = amudai.ShardFile(str(path))
    _ = file.properties
    table = file.read(use_threads=False)
    table.validate(full=True)
    return table


_MALFORMED = {
    "bad-magic-footer": "expected magic 616d7564, found 414d5544",
    "block-bit-flip": "block 0 of an encoded buffer: its checksum does not match its bytes",
    "blockmap-value-count": "block map: 0 values in 4 blocks",
    "dataref-past-end": "bytes 27947 to 1027997 are outside of the file of 27997 bytes",
    "dataref-traversal": "url '../../../../etc/hostname' is not allowed",
    "directory-bit-flip": "ShardDirectory message has checksum 0x08f69b19, expected 0x1f001dbd",
    "huge-stripe-count": "the directory's stripe_count is 1152921504606846976, the stripes have 1",
    "missing-stripe-file": "31bbc6b40b512401.amudai.stripe, which does not exist",
    "truncated-tail": "expected magic 616d7564, found 14121209",
    "unknown-encoding": "no encoding has code 99",
}


@pytest.mark.skipif(not SHARED.exists(), reason="made from shards that lie beside the project")
@pytest.mark.parametrize("name", _MALFORMED)
def test_malformed_shards(name: str) -> None:
    with pytest.raises(FormatError, match=re.escape(_MALFORMED[name])) as caught:
        _read(SHARED / "amudai-malformed" / name / "data.amudai.shard")
    assert caught.value.rule


@pytest.mark.parametrize("source", SMALL, ids=lambda path: path.parent.name)
def test_truncated(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    lengths = {0, 1, 8, 27, len(data) - 1, *range(0, len(data), max(1, len(data) // 150))}
    target = tmp_path / "data.amudai.shard"
    for length in sorted(lengths - {len(data)}):
        target.write_bytes(data[:length])
        # a cut through the name of a file of a stripe looks like the footer of another version
        with pytest.raises((FormatError, UnsupportedError)):
            _read(target)


@pytest.mark.parametrize("source", SMALL, ids=lambda path: path.parent.name)
def test_flipped_bits(source: Path, tmp_path: Path) -> None:
    """A flip is found by a checksum, or changes nothing that is read: padding, or a footer's minor version."""
    data, expected = source.read_bytes(), _read(source) if source.parent.name != "planes" else None
    for stripe in source.parent.glob("*.amudai.stripe"):
        (tmp_path / stripe.name).write_bytes(stripe.read_bytes())
    target = tmp_path / "data.amudai.shard"
    generator = random.Random(source.parent.name)
    for _ in range(60):
        flipped = bytearray(data)
        flipped[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        target.write_bytes(flipped)
        with contextlib.suppress(FormatError, UnsupportedError):
            found = _read(target)
            assert expected is None or found.equals(expected)


Alter = Callable[[Parts], None]


def _stripe_count(parts: Parts) -> None:
    parts.directory.stripe_count = 2


def _record_count(parts: Parts) -> None:
    parts.directory.total_record_count = 301


def _record_offset(parts: Parts) -> None:
    parts.stripes.stripes[0].record_offset = 1


def _deleted_count(parts: Parts) -> None:
    parts.stripes.stripes[0].deleted_record_count = 301


def _position_count(parts: Parts) -> None:
    parts.descriptor("n").field.position_count = 1 << 50


def _other_position_count(parts: Parts) -> None:
    parts.descriptor("n").field.position_count = 299


def _block_map_elsewhere(parts: Parts) -> None:
    parts.buffers("n")[BufferKind.DATA].block_map.range.end -= 8


def _no_block_map(parts: Parts) -> None:
    parts.buffers("n")[BufferKind.DATA].ClearField("block_map")


def _no_data(parts: Parts) -> None:
    del parts.descriptor("n").encodings[0].native.buffers[:]


def _two_data(parts: Parts) -> None:
    buffers = parts.descriptor("n").encodings[0].native.buffers
    buffers.add().CopyFrom(buffers[0])


def _no_encoding(parts: Parts) -> None:
    del parts.descriptor("n").encodings[:]


def _unknown_kind(parts: Parts) -> None:
    parts.buffers("n")[BufferKind.DATA].kind = 17  # type: ignore[assignment]


def _backwards(parts: Parts) -> None:
    buffer = parts.buffers("n")[BufferKind.DATA].buffer.range
    buffer.start, buffer.end = buffer.end, buffer.start


def _absolute(parts: Parts) -> None:
    parts.buffers("n")[BufferKind.DATA].buffer.url = "file:///etc/hostname"


def _traversal(parts: Parts) -> None:
    parts.buffers("n")[BufferKind.DATA].buffer.url = "a/%2E./hostname"


def _secret(parts: Parts) -> None:
    parts.buffers("n")[BufferKind.DATA].buffer.url = "https://user:password@host/file?sig=hidden"


def _constant_of_another_kind(parts: Parts) -> None:
    parts.descriptor("n").field.constant_value.string_value = "one"


def _constant_out_of_range(parts: Parts) -> None:
    parts.descriptor("n").field.constant_value.u64_value = 1 << 63


def _offsets_fall(parts: Parts) -> None:
    offsets = np.arange(0, 301, dtype=np.uint64)[::-1]
    buffers = parts.descriptor("l").encodings[0].native.buffers
    del buffers[:]
    buffers.append(parts.add_numbers(BufferKind.OFFSETS, offsets))


def _offsets_beyond(parts: Parts) -> None:
    offsets = np.arange(0, 903, 3, dtype=np.uint64)
    buffers = parts.descriptor("l").encodings[0].native.buffers
    del buffers[:]
    buffers.append(parts.add_numbers(BufferKind.OFFSETS, offsets))


def _too_few_offsets(parts: Parts) -> None:
    buffers = parts.descriptor("l").encodings[0].native.buffers
    del buffers[:]
    buffers.append(parts.add_numbers(BufferKind.OFFSETS, np.zeros(300, np.uint64)))


def _major_version(parts: Parts) -> None:
    parts.footer = lambda directory: encode_directory(directory)[:-1] + b"\x01"


def _no_schema(parts: Parts) -> None:
    def without(directory: ShardDirectory) -> bytes:
        directory.ClearField("schema_ref")
        return encode_directory(directory)

    parts.footer = without


def _lengths_differ(parts: Parts) -> None:
    def altered(directory: ShardDirectory) -> bytes:
        end = bytearray(encode_directory(directory))
        end[:4] = struct.pack("<I", len(end) - 21)
        return bytes(end)

    parts.footer = altered


def _header(parts: Parts) -> None:
    parts.data[:4] = b"PAR1"


_HOSTILE: list[tuple[Alter, type[SkerryError], str]] = [
    (_stripe_count, FormatError, "the directory's stripe_count is 2, the stripes have 1"),
    (_record_count, FormatError, "the directory's total_record_count is 301, the stripes have 300"),
    (_record_offset, FormatError, "stripe 0 begins at record 1 and has 300"),
    (_deleted_count, FormatError, "301 of them deleted"),
    (_position_count, FormatError, "has 1125899906842624 positions, expected at most"),
    (_other_position_count, FormatError, "has 299 positions, expected 300"),
    (_block_map_elsewhere, FormatError, "expected it to end the buffer"),
    (_no_block_map, UnsupportedError, "an encoded buffer without a block map"),
    (_no_data, FormatError, "field 'n' (schema id 0) has no DATA buffer"),
    (_two_data, FormatError, "an encoding has two DATA buffers"),
    (_no_encoding, UnsupportedError, "field 'n' (schema id 0) has no encoding"),
    (_unknown_kind, UnsupportedError, "a buffer of kind 17 is unknown"),
    (_backwards, FormatError, "are not a range of a file"),
    (_absolute, UnsupportedError, "the shard refers to 'file:///etc/hostname': absolute urls are followed only"),
    (_traversal, FormatError, "url 'a/%2E./hostname' is not allowed"),
    (_secret, UnsupportedError, "the shard refers to 'https://***@host/file'"),
    (_constant_of_another_kind, FormatError, "has a constant of kind string_value that is no INT64"),
    (_constant_out_of_range, FormatError, "has a constant of kind u64_value that is no INT64"),
    (_offsets_fall, FormatError, "offsets do not rise"),
    (_offsets_beyond, FormatError, "offsets lead to item 900 of 450"),
    (_too_few_offsets, FormatError, "the block map has 300 values, expected 301"),
    (_major_version, UnsupportedError, "version 1 of the format, expected 0"),
    (_no_schema, FormatError, "the directory has no schema_ref"),
    (_lengths_differ, FormatError, "directory has a length of"),
    (_header, FormatError, "expected magic 616d7564, found 50415231"),
]


@pytest.mark.parametrize(("alter", "kind", "message"), _HOSTILE, ids=lambda value: getattr(value, "__name__", None))
def test_hostile_shards(alter: Alter, kind: type[SkerryError], message: str, tmp_path: Path) -> None:
    parts = written(TABLE, tmp_path / "written")
    alter(parts)
    with pytest.raises(kind, match=re.escape(message)) as caught:
        _read(parts.seal(tmp_path / "sealed"))
    assert "hidden" not in str(caught.value)
    assert "password" not in str(caught.value)


def test_no_file_outside_of_the_folder_is_opened(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"amud\x00\x01\x00\x00" * 100)
    folder = tmp_path / "shard"
    folder.mkdir()
    for url in ("../outside", "/outside", "x/../../outside", "..%2foutside", "%2e%2e/outside", "..\\outside", "a//b"):
        parts = written(TABLE, folder / "written", overwrite=True)
        parts.buffers("n")[BufferKind.DATA].buffer.url = url
        storage = Storage()
        with pytest.raises((FormatError, UnsupportedError)):
            amudai.ShardFile(parts.seal(folder / "sealed"), storage=storage).read(columns=["n"])


def test_values_that_refer_in_circles_end(tmp_path: Path) -> None:
    parts = written(TABLE, tmp_path / "written")
    pair = parts.properties.custom_properties.add(name="circle")
    place = len(parts.data) + -len(parts.data) % 64
    inner = pair.value
    inner.data_ref.range.start, inner.data_ref.range.end = place, place + 64
    frame = encode_message(inner)
    reference = parts.add(frame.ljust(64, b"\0"))
    assert reference.range.start == place
    path = parts.seal(tmp_path / "sealed")
    file = amudai.ShardFile(path)
    assert file.read().equals(TABLE)
    with pytest.raises(FormatError, match="a value refers on and on"):
        _ = file.properties
    assert take_apart(path).properties.custom_properties[-1].name == "circle"
