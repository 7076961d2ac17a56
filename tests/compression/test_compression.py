"""Round trips, what the peers read and write, and every way in which compressed bytes can lie."""

from __future__ import annotations

import contextlib
import random
import struct
import threading
import tracemalloc
from collections.abc import Callable

import lz4.block
import lz4.frame
import numpy as np
import pyarrow as pa
import pytest
import xxhash
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry import compression
from skerry.compression import (
    compress_lz4_block,
    compress_lz4_frame,
    compress_zstd,
    decompress_lz4_block,
    decompress_lz4_frame,
    decompress_zstd,
    decompress_zstd_frames,
    decompress_zstd_into,
    decompress_zstd_of_size,
)
from skerry.errors import FormatError
from torture import examples

CONTENTS = {
    "empty": b"",
    "one byte": b"\x00",
    "short text": b"puffin",
    "runs": b"a" * 70_000 + b"b" * 5,
    "numbers": struct.pack("<5000q", *range(5000)),
    "noise": random.Random(1).randbytes(10_000),
    "several blocks": random.Random(2).randbytes(150_000) + bytes(300_000) + b"end",
}
contents = pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())


def decompress_block(data: bytes, *, max_bytes: int) -> bytes:
    return decompress_lz4_block(data, size=max_bytes)


def decompress_into(data: bytes, *, max_bytes: int) -> bytes:
    output = bytearray(max_bytes)
    decompress_zstd_into(data, memoryview(output))
    return bytes(output)


def decompress_of_size(data: bytes, *, max_bytes: int) -> bytes:
    return decompress_zstd_of_size(data, max_bytes)


def zstd_with_checksum(content: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(content)


def zstd_of_unknown_size(content: bytes, level: int = 3) -> bytes:
    """A frame as a streaming writer makes it: no content size in the header."""
    stream = zstandard.ZstdCompressor(level=level).compressobj()
    return stream.compress(content) + stream.flush()


# Every way to write (ours and the peer's) beside the way to read it.
ROUTES: dict[str, tuple[Callable[[bytes], bytes], Callable[..., bytes]]] = {
    "zstd": (compress_zstd, decompress_zstd),
    "zstd level 19": (lambda content: compress_zstd(content, level=19), decompress_zstd),
    "zstd level -5": (lambda content: compress_zstd(content, level=-5), decompress_zstd),
    "zstd without size": (lambda content: compress_zstd(content, content_size=False), decompress_zstd),
    "zstd peer": (lambda content: zstandard.ZstdCompressor().compress(content), decompress_zstd),
    "zstd peer with checksum": (zstd_with_checksum, decompress_zstd),
    "zstd peer streaming": (zstd_of_unknown_size, decompress_zstd),
    "zstd pyarrow": (lambda content: pa.compress(content, codec="zstd", asbytes=True), decompress_zstd),
    "zstd into memory": (compress_zstd, decompress_into),
    "zstd peer with checksum into memory": (zstd_with_checksum, decompress_into),
    "zstd peer streaming into memory": (zstd_of_unknown_size, decompress_into),
    "zstd of known size in memory": (compress_zstd, decompress_of_size),
    "zstd peer streaming of known size in memory": (zstd_of_unknown_size, decompress_of_size),
    "lz4 frame": (compress_lz4_frame, decompress_lz4_frame),
    "lz4 frame level 9": (lambda content: compress_lz4_frame(content, level=9), decompress_lz4_frame),
    "lz4 frame without size": (lambda content: compress_lz4_frame(content, content_size=False), decompress_lz4_frame),
    "lz4 frame peer": (
        lambda content: lz4.frame.compress(content, content_checksum=True, block_checksum=True, block_linked=True),
        decompress_lz4_frame,
    ),
    "lz4 frame pyarrow": (lambda content: pa.compress(content, codec="lz4", asbytes=True), decompress_lz4_frame),
    "lz4 block": (compress_lz4_block, decompress_block),
    "lz4 block level 12": (lambda content: compress_lz4_block(content, level=12), decompress_block),
    "lz4 block peer": (lambda content: lz4.block.compress(content, store_size=False), decompress_block),
}
routes = pytest.mark.parametrize(("compress", "decompress"), ROUTES.values(), ids=ROUTES.keys())
FRAMES = {name: route for name, route in ROUTES.items() if "block" not in name and "memory" not in name}
frames = pytest.mark.parametrize(("compress", "decompress"), FRAMES.values(), ids=FRAMES.keys())


@contents
@routes
def test_round_trip(content, compress, decompress):
    assert decompress(compress(content), max_bytes=len(content)) == content


@contents
def test_peers_read_what_we_write(content):
    assert zstandard.ZstdDecompressor().decompress(compress_zstd(content)) == content
    unsized = compress_zstd(content, content_size=False)
    assert zstandard.ZstdDecompressor().decompressobj().decompress(unsized) == content
    for frame in (compress_lz4_frame(content), compress_lz4_frame(content, content_size=False)):
        assert lz4.frame.decompress(frame) == content
    assert lz4.block.decompress(compress_lz4_block(content), uncompressed_size=len(content)) == content


@contents
@frames
def test_content_far_below_the_limit_is_fine(content, compress, decompress):
    assert decompress(compress(content), max_bytes=1 << 50) == content


@contents
@pytest.mark.parametrize("codec", ["zstd", "lz4_frame"])
def test_content_size_is_written_unless_declined(content, codec):
    compress, decompress = getattr(compression, f"compress_{codec}"), getattr(compression, f"decompress_{codec}")
    limits = {"max_bytes": len(content), "require_content_size": True}
    assert decompress(compress(content), **limits) == content
    with pytest.raises(FormatError, match="does not state the size of its content"):
        decompress(compress(content, content_size=False), **limits)


def test_header_of_an_empty_lz4_frame_is_sound():
    frame = compress_lz4_frame(b"")
    assert frame[14] == xxhash.xxh32(frame[4:14]).intdigest() >> 8 & 0xFF
    assert lz4.frame.get_frame_info(frame)["content_size"] == 0


@routes
def test_any_contiguous_buffer_is_taken(compress, decompress):
    numbers = np.arange(1000, dtype=np.int64)
    expected = numbers.tobytes()
    packed = compress(expected)
    for form in (bytearray(packed), memoryview(packed), pa.py_buffer(packed), np.frombuffer(packed, np.uint8)):
        assert decompress(form, max_bytes=len(expected)) == expected
    for ours, read in (
        (compress_zstd, decompress_zstd),
        (compress_lz4_frame, decompress_lz4_frame),
        (compress_lz4_block, decompress_block),
    ):
        assert read(ours(numbers), max_bytes=len(expected)) == expected


@frames
def test_content_above_the_limit_is_refused(compress, decompress):
    for content in (b"x", CONTENTS["runs"], CONTENTS["several blocks"]):
        with pytest.raises(FormatError, match=rf"(at most|expected) {len(content) - 1}\b"):
            decompress(compress(content), max_bytes=len(content) - 1)


@contents
@frames
def test_trailing_bytes_and_second_frames_are_refused(content, compress, decompress):
    frame = compress(content)
    for tail in (b"\x00", b"trailing", frame):
        with pytest.raises(FormatError, match="followed by") as caught:
            decompress(frame + tail, max_bytes=1 << 30)
        assert caught.value.offset is not None


@contents
@frames
def test_every_truncation_is_refused(content, compress, decompress):
    frame = compress(content)
    ends = range(len(frame)) if len(frame) < 200 else [*range(40), *range(len(frame) - 40, len(frame))]
    for end in ends:
        with pytest.raises(FormatError):
            decompress(frame[:end], max_bytes=len(content))


def test_truncated_block_is_refused():
    for content in CONTENTS.values():
        block = compress_lz4_block(content)
        for end in {0, 1, len(block) // 2, len(block) - 1} - {len(block)}:
            with pytest.raises(FormatError):
                decompress_lz4_block(block[:end], size=max(1, len(content)))


@pytest.mark.parametrize("wrong", [-1, 1, 50, 1 << 20, 1 << 33, 1 << 70])
def test_block_of_another_size_is_refused(wrong):
    block = compress_lz4_block(CONTENTS["numbers"])
    with pytest.raises(FormatError, match="LZ4 block"):
        decompress_lz4_block(block, size=len(CONTENTS["numbers"]) + wrong)
    with pytest.raises(FormatError, match="LZ4 block"):
        decompress_lz4_block(block, size=-wrong)


# -- content sizes that lie ------------------------------------------------------------------------------------------


def zstd_claiming(size: int) -> bytes:
    """A frame of 1,000 zero bytes whose header claims `size`, in the 8-byte field and with a window of its own."""
    unsized = compress_zstd(bytes(1000), content_size=False)
    body = unsized[zstandard.frame_header_size(unsized) :]
    return unsized[:4] + b"\xc0" + unsized[5:6] + struct.pack("<Q", size) + body


def lz4_claiming(size: int) -> bytes:
    """A frame of 1,000 zero bytes whose header claims `size`, with a right header checksum."""
    frame = bytearray(compress_lz4_frame(bytes(1000)))
    struct.pack_into("<Q", frame, 6, size)
    frame[14] = xxhash.xxh32(bytes(frame[4:14])).intdigest() >> 8 & 0xFF
    return bytes(frame)


LIARS = pytest.mark.parametrize(
    ("claiming", "decompress"), [(zstd_claiming, decompress_zstd), (lz4_claiming, decompress_lz4_frame)]
)


@LIARS
def test_the_true_content_size_is_accepted(claiming, decompress):
    assert decompress(claiming(1000), max_bytes=1000, require_content_size=True) == bytes(1000)


@LIARS
@pytest.mark.parametrize("claim", [0, 1, 999, 1001, 2000, 1 << 20, 1 << 40, (1 << 64) - 2])
def test_a_content_size_that_lies_is_refused(claiming, decompress, claim):
    for limit in (1000, 1 << 62):
        with pytest.raises(FormatError):
            decompress(claiming(claim), max_bytes=limit)


@LIARS
@pytest.mark.parametrize("claim", [1 << 30, 1 << 40])
def test_a_claimed_size_is_checked_before_it_is_allocated(claiming, decompress, claim):
    frame = claiming(claim)
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            decompress(frame, max_bytes=1 << 62)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_an_expected_block_size_is_checked_before_it_is_allocated():
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="cannot hold"):
            decompress_lz4_block(b"\x00" * 100, size=1 << 30)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_large_limit_costs_nothing_when_the_frame_is_small():
    """The limit alone must not size the result: a frame without content size is bounded by its own blocks."""
    cases = [
        (compress_zstd(b"x" * 100, content_size=False), decompress_zstd),
        (compress_lz4_frame(b"x" * 100, content_size=False), decompress_lz4_frame),
    ]
    tracemalloc.start()
    try:
        for frame, decompress in cases:
            assert decompress(frame, max_bytes=1 << 40) == b"x" * 100
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_the_expansion_bounds_hold_for_the_most_compressible_content():
    """Both bounds are tight enough to matter and never refuse what a codec really writes."""
    content = bytes(4_000_000)
    for level in (1, 3, 19):
        assert decompress_zstd(compress_zstd(content, level=level), max_bytes=len(content)) == content
    for level in (0, 9, 12):
        assert decompress_lz4_frame(compress_lz4_frame(content, level=level), max_bytes=len(content)) == content
        assert decompress_lz4_block(compress_lz4_block(content, level=level), size=len(content)) == content


# -- bad frames, and what is said about them ---------------------------------------------------------------------------

ZSTD = compress_zstd(b"puffin" * 10)
LZ4 = compress_lz4_frame(b"puffin" * 10)
ZSTD_UNKNOWN = compress_zstd(b"puffin" * 10, content_size=False)
ZSTD_TWICE = zstd_of_unknown_size(bytes(1001))
ZSTD_RAW = zstd_of_unknown_size(b"abc")
ZSTD_DAMAGED = zstd_with_checksum(bytes(range(250)) * 4)[:-1] + b"\x00"


@pytest.mark.parametrize("compress", [compress_zstd, zstd_with_checksum, zstd_of_unknown_size])
def test_frames_that_lie_anywhere_in_some_bytes(compress):
    wanted = [content for content in CONTENTS.values() if content]
    frames = [compress(content) for content in wanted]
    data, starts = b"", []
    for frame in reversed(frames):
        starts.append(len(data) + 3)
        data += b"gap" + frame
    places = [np.array(each, np.int64) for each in (starts[::-1], [*map(len, frames)], [*map(len, wanted)])]
    assert decompress_zstd_frames(data, *places) == b"".join(wanted)
    for place, change in ((0, 1), (0, len(data)), (1, -1), (1, len(data)), (2, 1), (2, -1)):
        damaged = [each.copy() for each in places]
        damaged[place][2] += change
        with pytest.raises(FormatError, match="cannot be decoded"):
            decompress_zstd_frames(data, *damaged)


BAD_FRAMES = {
    "zstd: nothing": (decompress_zstd, b"", "expected magic 28b52ffd, found no bytes"),
    "zstd: half a magic": (decompress_zstd, ZSTD[:2], "expected magic 28b52ffd, found 28b5"),
    "zstd: LZ4": (decompress_zstd, LZ4, "expected magic 28b52ffd, found 04224d18"),
    "zstd: skippable frame": (decompress_zstd, b"\x50\x2a\x4d\x18\x01\x00\x00\x00x", "found 502a4d18"),
    "zstd: magic only": (decompress_zstd, ZSTD[:4], "header is damaged"),
    "zstd: reserved bit": (decompress_zstd, ZSTD[:4] + bytes([ZSTD[4] | 8]) + ZSTD[5:], "header is damaged"),
    "zstd: dictionary": (decompress_zstd, ZSTD[:4] + b"\x21\x07" + ZSTD[5:], "needs dictionary 7"),
    "zstd: no block": (decompress_zstd, ZSTD[:6], "no last block"),
    "zstd: reserved block type": (decompress_zstd, ZSTD[:6] + b"\x07\x00\x00", "block of type 3"),
    "zstd: block too large": (decompress_zstd, ZSTD[:6] + b"\xfd\xff\xff" + bytes(99), "and size 2097151"),
    "zstd: window too large": (
        decompress_zstd,
        b"\x28\xb5\x2f\xfd\x00\xa0" + b"\x01\x00\x00",
        "cannot be decoded into at most",
    ),
    "lz4: nothing": (decompress_lz4_frame, b"", "expected magic 04224d18, found no bytes"),
    "zstd into memory: too small": (decompress_into, ZSTD, "holds 60 bytes, expected 1000"),
    "zstd into memory: too small, unknown": (decompress_into, ZSTD_UNKNOWN, "holds 60 bytes, expected 1000"),
    "zstd into memory: too large": (decompress_into, ZSTD_TWICE, "holds more than 1000 bytes, expected 1000"),
    "zstd into memory: far too small": (decompress_into, ZSTD_RAW, "holds at most 3 bytes, expected 1000"),
    "zstd into memory: damaged": (decompress_into, ZSTD_DAMAGED, "cannot be decoded into 1000 bytes"),
    "zstd of size: too small": (decompress_of_size, ZSTD, "holds 60 bytes, expected 1000"),
    "zstd of size: too small, unknown": (decompress_of_size, ZSTD_UNKNOWN, "holds 60 bytes, expected 1000"),
    "zstd of size: too large": (decompress_of_size, ZSTD_TWICE, "holds more than 1000|cannot be decoded|2000 bytes"),
    "zstd of size: damaged": (decompress_of_size, ZSTD_DAMAGED, "cannot be decoded into 1000 bytes"),
    "zstd of size: LZ4": (decompress_of_size, LZ4, "cannot be decoded into 1000 bytes"),
    "zstd of size: two frames": (decompress_of_size, compress_zstd(bytes(1000)) * 2, "cannot be decoded"),
    "zstd of size: dictionary": (decompress_of_size, ZSTD[:4] + b"\x21\x07" + ZSTD[5:], "decoded|holds"),
    "lz4: zstd": (decompress_lz4_frame, ZSTD, "found 28b52ffd"),
    "lz4: legacy frame": (decompress_lz4_frame, b"\x02\x21\x4c\x18" + bytes(20), "found 02214c18"),
    "lz4: skippable frame": (decompress_lz4_frame, b"\x50\x2a\x4d\x18\x01\x00\x00\x00x", "found 502a4d18"),
    "lz4: half a header": (decompress_lz4_frame, LZ4[:6], "cut short in its descriptor"),
    "lz4: half a size": (decompress_lz4_frame, LZ4[:12], "cut short in its descriptor"),
    "lz4: version 2": (decompress_lz4_frame, LZ4[:4] + b"\xa8" + LZ4[5:], "version 2, expected 1"),
    "lz4: dictionary": (decompress_lz4_frame, LZ4[:4] + bytes([LZ4[4] | 1]) + LZ4[5:], "needs a dictionary"),
    "lz4: header checksum": (decompress_lz4_frame, LZ4[:14] + bytes([LZ4[14] ^ 1]) + LZ4[15:], "LZ4 frame is damaged"),
    "lz4: no end mark": (decompress_lz4_frame, LZ4[:-4], "no end mark"),
    "block: nothing": (decompress_block, b"", "of 0 bytes cannot hold the expected 1000 bytes"),
    "block: offset before the start": (decompress_block, b"\x1fx\xff\xff\x00\xff\xff\xff\xff", "damaged or larger"),
}


@pytest.mark.parametrize(("decompress", "data", "message"), BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_bad_frame(decompress, data, message):
    with pytest.raises(FormatError, match=message):
        decompress(data, max_bytes=1000)


def test_checksums_are_checked():
    content = CONTENTS["noise"]
    frame = bytearray(zstd_with_checksum(content))
    frame[-1] ^= 1
    with pytest.raises(FormatError, match="checksum"):
        decompress_zstd(frame, max_bytes=len(content))
    frame = bytearray(lz4.frame.compress(content, content_checksum=True))
    frame[-1] ^= 1
    with pytest.raises(FormatError, match="contentChecksum"):
        decompress_lz4_frame(frame, max_bytes=len(content))


# -- properties --------------------------------------------------------------------------------------------------------

ROUTE_NAMES = st.sampled_from(sorted(ROUTES))
BYTES = st.one_of(st.binary(max_size=2000), st.binary(min_size=1, max_size=9).map(lambda piece: piece * 500))


@given(content=BYTES, name=ROUTE_NAMES)
@settings(deadline=None)
def test_round_trips_whatever_the_content(content, name):
    compress, decompress = ROUTES[name]
    assert decompress(compress(content), max_bytes=len(content)) == content


@given(content=BYTES, name=ROUTE_NAMES, data=st.data())
@settings(deadline=None, max_examples=examples(100))
def test_flipped_bits_raise_format_error_or_stay_within_the_limit(content, name, data):
    compress, decompress = ROUTES[name]
    frame = bytearray(compress(content))
    for position in data.draw(st.lists(st.integers(0, len(frame) * 8 - 1), min_size=1, max_size=4)):
        frame[position // 8] ^= 1 << position % 8
    limit = len(content) + data.draw(st.integers(0, 1000))
    try:
        result = decompress(bytes(frame), max_bytes=limit)
    except FormatError:
        return
    assert len(result) <= limit


@given(noise=st.binary(max_size=300), magic=st.sampled_from([b"", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"]))
@settings(deadline=None, max_examples=examples(100))
def test_noise_raises_format_error_or_stays_within_the_limit(noise, magic):
    for decompress in (decompress_zstd, decompress_into, decompress_lz4_frame, decompress_block):
        with contextlib.suppress(FormatError):
            assert len(decompress(magic + noise, max_bytes=5000)) <= 5000


def test_threads_share_nothing():
    content = CONTENTS["several blocks"]
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for compress, decompress in ROUTES.values():
                assert decompress(compress(content), max_bytes=len(content)) == content
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
