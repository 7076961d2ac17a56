"""Compact sketches as bytes: every form of Java and C++, and every way in which bytes can be wrong."""

from __future__ import annotations

import contextlib
import random
import struct
from typing import Any

import datasketches
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from java_forms import FORMS, JavaForm, expected_of_nothing_in_common, path_of
from plain_theta import MAX_THETA, alpha

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.theta import ThetaSketch
from skerry.theta.hashing import seed_hash
from skerry.theta.layout import (
    CompactSketch,
    decode_sketch,
    encode_compressed_sketch,
    encode_sketch,
)

FLAGS = {"read_only": 2, "empty": 4, "compact": 8, "ordered": 16, "single": 32}
EXACT, ESTIMATING, COMPRESSED = (path_of(name).read_bytes() for name in ("exact", "estimating", "exact_compressed"))
SINGLE, EMPTY = path_of("single_item").read_bytes(), path_of("empty").read_bytes()
ALL_FORMS = {path.stem: path.read_bytes() for path in sorted(path_of("*").parent.glob("*.theta"))}


def patched(data: bytes, offset: int, new: bytes) -> bytes:
    return data[:offset] + new + data[offset + len(new) :]


def words(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}Q", *numbers)


def old_version(version: int, preamble_words: int, hashes: list[int], theta: int = MAX_THETA) -> bytes:
    """Serial versions 1 and 2: always ordered; version 1 knows no hash of the seed."""
    seed = seed_hash(9001) if version == 2 else 0
    head = struct.pack("<BBBxxxH", preamble_words, version, 3, seed)
    if preamble_words > 1:
        head += struct.pack("<If", len(hashes), 1.0)
    if preamble_words > 2:
        head += words(theta)
    return head + words(*hashes)


@pytest.mark.parametrize("name", FORMS)
def test_what_java_wrote_is_read(name: str):
    form = FORMS[name]
    sketch = decode_sketch(path_of(name).read_bytes(), form.seed)
    assert (sketch.theta, sketch.hashes.tolist()) == form.expected()
    assert sketch.is_empty == (form.start == form.stop)
    assert sketch.is_estimating == (sketch.theta < MAX_THETA)


@pytest.mark.parametrize("name", FORMS)
def test_what_java_wrote_is_written(name: str):
    form = FORMS[name]
    theta, hashes = form.expected()
    sketch = CompactSketch(theta, np.array(hashes, np.uint64), not hashes)
    encode = encode_compressed_sketch if name.endswith("_compressed") else encode_sketch
    expected = path_of(name.removesuffix("_unordered")).read_bytes()
    assert encode(sketch, form.seed) == expected


def test_sketch_without_hashes_need_not_be_empty():
    data = path_of("nothing_in_common").read_bytes()
    sketch = decode_sketch(data)
    assert (sketch.theta, sketch.hashes.tolist()) == expected_of_nothing_in_common()
    assert not sketch.is_empty
    assert encode_sketch(sketch) == data


@pytest.mark.parametrize(
    ("data", "theta", "hashes"),
    [
        (old_version(1, 3, []), MAX_THETA, []),
        (old_version(1, 3, [5, 9]), MAX_THETA, [5, 9]),
        (old_version(1, 3, [5], 1000), 1000, [5]),
        (old_version(2, 1, []), MAX_THETA, []),
        (old_version(2, 2, []), MAX_THETA, []),
        (old_version(2, 2, [7]), MAX_THETA, [7]),
        (old_version(2, 3, [5, 9], 1000), 1000, [5, 9]),
        (old_version(2, 3, [], 1000), 1000, []),
        (EMPTY[:5] + bytes([FLAGS["compact"] | FLAGS["read_only"]]) + EMPTY[6:], MAX_THETA, []),
        (patched(SINGLE, 5, bytes([0x1A])), MAX_THETA, decode_sketch(SINGLE).hashes.tolist()),
    ],
    ids=[
        "1 empty",
        "1 exact",
        "1 estimating",
        "2 empty, 1 word",
        "2 empty, 2 words",
        "2 single",
        "2 estimating",
        "2 no hashes",
        "3 empty without flag",
        "3 single without flag",
    ],
)
def test_older_forms(data: bytes, theta: int, hashes: list[int]):
    sketch = decode_sketch(data)
    assert (sketch.theta, sketch.hashes.tolist()) == (theta, hashes)
    assert sketch.is_empty == (not hashes and theta == MAX_THETA)


@pytest.mark.parametrize("count", [0, 1, 2, 5000, 100_000])
@pytest.mark.parametrize("ordered", [True, False])
def test_cpp_and_we_read_each_other(count: int, ordered: bool):
    theirs = datasketches.update_theta_sketch(12)
    for number in range(count):
        theirs.update(number)
    compact = theirs.compact(ordered)
    ours = ThetaSketch.deserialize(compact.serialize())
    assert ours.theta == compact.theta64
    assert ours.hashes.tolist() == sorted(compact)
    assert ours.is_empty == compact.is_empty()
    for data in (ours.serialize(), ours.serialize(compressed=True)):
        again = datasketches.compact_theta_sketch.deserialize(data)
        assert (again.theta64, list(again)) == (compact.theta64, sorted(compact))


SKETCHES = st.builds(
    lambda hashes, theta: CompactSketch(theta, np.array(sorted(h for h in hashes if h < theta), np.uint64), False),
    st.sets(st.integers(1, MAX_THETA - 1) | st.integers(1, 300), max_size=40),
    st.integers(1, MAX_THETA - 1),
)


@given(SKETCHES)
def test_round_trip_through_every_form_we_write(sketch: CompactSketch):
    for encode in (encode_sketch, encode_compressed_sketch):
        again = decode_sketch(encode(sketch, 77), 77)
        assert again.theta == sketch.theta
        assert again.hashes.tolist() == sketch.hashes.tolist()
        assert not again.is_empty


def compressed_bytes(hashes: list[int], **fields: int) -> bytes:
    """Version 4 with fields put in by force."""
    bits = fields.get("bits", 8)
    count = fields.get("count", len(hashes))
    number, previous = 0, 0
    for hash_ in hashes:
        number, previous = number << bits | (hash_ - previous), hash_
    size = (bits * len(hashes) + 7) // 8
    packed = (number << (8 * size - bits * len(hashes))).to_bytes(size, "big")
    head = struct.pack(
        "<BBBBBBH",
        fields.get("words", 1),
        4,
        3,
        bits,
        fields.get("count_bytes", 1),
        fields.get("flags", 0x1A),
        seed_hash(9001),
    )
    return head + bytes([count]) + packed


SWAPPED = EXACT[:16] + EXACT[24:32] + EXACT[16:24] + EXACT[32:]
TWICE = EXACT[:16] + EXACT[24:32] + EXACT[24:]
RUN_OVER = compressed_bytes([MAX_THETA - 1, 2 * MAX_THETA - 4], bits=63)

BAD: list[tuple[str, bytes, type[SkerryError], str, int]] = [
    ("no bytes", b"", FormatError, "at least 8 bytes, this has 0", 0),
    ("half a preamble", EXACT[:7], FormatError, "at least 8 bytes, this has 7", 0),
    ("preamble of 0 words", patched(EXACT, 0, b"\x00"), FormatError, "1 to 3 words, this says 0", 0),
    ("preamble of 4 words", patched(EXACT, 0, b"\x04"), FormatError, "1 to 3 words, this says 4", 0),
    ("preamble cut off", ESTIMATING[:20], FormatError, "preamble has 24 bytes, 20 are there", 0),
    ("version 0", patched(EXACT, 1, b"\x00"), UnsupportedError, "serial version 0", 1),
    ("version 5", patched(EXACT, 1, b"\x05"), UnsupportedError, "serial version 5", 1),
    ("update form", patched(EXACT, 2, b"\x01"), UnsupportedError, "family ALPHA is not a compact", 2),
    ("quick select", patched(EXACT, 2, b"\x02"), UnsupportedError, "family QUICKSELECT", 2),
    ("unknown family", patched(EXACT, 2, b"\x63"), FormatError, "has family 3, this has 99", 2),
    ("big-endian", patched(EXACT, 5, b"\x1b"), UnsupportedError, "big-endian", 5),
    ("reserved flag", patched(EXACT, 5, b"\x5a"), FormatError, "bits 6 and 7 are reserved, the flags are 0x5a", 5),
    ("not compact", patched(EXACT, 5, b"\x12"), FormatError, "has the compact flag set", 5),
    ("not read-only", patched(EXACT, 5, b"\x18"), FormatError, "has the read-only flag set", 5),
    ("other seed", patched(EXACT, 6, b"\x00\x00"), FormatError, "seed 9001 has the hash 0x93cc, .*: 0x0000", 6),
    ("other seed, single item", patched(SINGLE, 6, b"\x01\x00"), FormatError, "another: 0x0001", 6),
    ("empty with hashes", patched(EXACT, 5, b"\x1e"), FormatError, "empty sketch has no hashes", 5),
    ("empty and single item", patched(EMPTY, 5, b"\x3e"), FormatError, "empty sketch has no hashes", 5),
    ("empty with more bytes", EMPTY + b"\x00", FormatError, "has 8 bytes, 9 are there", 8),
    ("single item of many", patched(EXACT, 5, b"\x3a"), FormatError, "preamble of 1 word, this says 2", 0),
    ("single item without one", SINGLE[:12], FormatError, "has 16 bytes, 12 are there", 12),
    ("too few hashes", EXACT[:-8], FormatError, "has 816 bytes, 808 are there", 808),
    ("bytes left over", EXACT + b"\x00", FormatError, "has 816 bytes, 817 are there", 816),
    ("count of 4 billion", patched(EXACT, 8, b"\xff" * 4), FormatError, "has 34359738376 bytes, 816 are there", 816),
    ("threshold 0", patched(ESTIMATING, 16, words(0)), FormatError, "θ is in 1 … 2⁶³-1, this is 0x0", 16),
    ("threshold too large", patched(ESTIMATING, 16, words(1 << 63)), FormatError, "this is 0x8000000000000000", 16),
    ("hash 0", patched(EXACT, 16, words(0)), FormatError, "number 0 is 0x0", 16),
    ("hash at the threshold", patched(EXACT, 808, words(MAX_THETA)), FormatError, "number 99 is 0x7fff", 808),
    ("hash above the threshold", patched(ESTIMATING, 4104, words(MAX_THETA - 1)), FormatError, "number 510", 4104),
    ("hashes out of order", SWAPPED, FormatError, "distinct, number 1", 24),
    ("a hash twice", TWICE, FormatError, "distinct, number 1", 24),
    ("a hash twice, unordered", patched(TWICE, 5, b"\x0a"), FormatError, "are distinct, number 1", 16),
    ("version 1 of 2 words", patched(old_version(1, 3, [5, 6]), 0, b"\x02"), FormatError, "3 words, this says 2", 0),
    ("version 2, other seed", patched(old_version(2, 2, [5, 6]), 6, b"\x00"), FormatError, "another: 0x9300", 6),
    ("version 2 out of order", old_version(2, 2, [6, 5]), FormatError, "ascending and distinct, number 1 is 0x5", 24),
    ("version 4 of 3 words", compressed_bytes([1] * 17, words=3), FormatError, "1 or 2 words, this says 3", 0),
    ("version 4, empty", compressed_bytes([1, 2], flags=0x1E), FormatError, "flags 0x1e", 0),
    ("version 4, unordered", compressed_bytes([1, 2], flags=0x0A), FormatError, "flags 0xa", 0),
    ("version 4, other seed", patched(COMPRESSED, 6, b"\x00\x00"), FormatError, "another: 0x0000", 6),
    ("differences of 0 bits", compressed_bytes([], bits=0, count=9), FormatError, "1 to 63 bits, this says 0", 3),
    ("differences of 64 bits", compressed_bytes([5], bits=64), FormatError, "1 to 63 bits, this says 64", 3),
    ("count of 0 bytes", compressed_bytes([5], count_bytes=0), FormatError, "1 to 4 bytes, this says 0", 4),
    ("count of 5 bytes", compressed_bytes([5], count_bytes=5), FormatError, "1 to 4 bytes, this says 5", 4),
    ("count cut off", compressed_bytes([5], count_bytes=4), FormatError, "this says 4 of 2 left", 4),
    ("version 4 without hashes", compressed_bytes([]), FormatError, "at least one hash", 8),
    ("packed hashes cut off", COMPRESSED[:-1], FormatError, "has 759 bytes, 758 are there", 758),
    ("packed hashes left over", COMPRESSED + b"\x00", FormatError, "has 759 bytes, 760 are there", 759),
    ("packed hash twice", compressed_bytes([5, 9, 9]), FormatError, "number 2 is 0x9", 11),
    ("packed hashes run over", RUN_OVER, FormatError, "number 1", 16),
]  # fmt: skip


@pytest.mark.parametrize(
    ("data", "error", "message", "offset"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_bad_bytes_are_refused(data: bytes, error: type[SkerryError], message: str, offset: int):
    with pytest.raises(error, match=message) as caught:
        decode_sketch(data)
    assert caught.value.offset == offset
    assert caught.value.rule is not None


@pytest.mark.parametrize("name", ALL_FORMS)
def test_every_truncation_is_refused(name: str):
    data, seed = ALL_FORMS[name], seed_of(name)
    cuts = range(len(data)) if len(data) < 1000 else [*range(64), *range(64, len(data), 37), len(data) - 1]
    for cut in cuts:
        # Empty and single item differ from other forms by their length too.
        if data[:cut] != data[:8] or len(data) != 16:
            with pytest.raises((FormatError, UnsupportedError)):
                decode_sketch(data[:cut], seed)


@pytest.mark.parametrize("name", ALL_FORMS)
def test_no_bit_flip_gets_past_the_rules(name: str):
    """It is refused, or what is read obeys every rule of a sketch."""
    data, seed = ALL_FORMS[name], seed_of(name)
    bits = range(8 * len(data))
    for bit in [*bits[:320], *random.Random(name).sample(bits, min(len(bits), 300))]:
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            sketch = decode_sketch(flipped, seed)
        except (FormatError, UnsupportedError):
            continue
        hashes = sketch.hashes.tolist()
        assert hashes == sorted(set(hashes))
        assert all(0 < hash_ < sketch.theta <= MAX_THETA for hash_ in hashes)


def seed_of(name: str) -> int:
    return FORMS.get(name, JavaForm(0, 0)).seed


@given(st.binary(max_size=80))
def test_random_bytes_raise_nothing_else(data: bytes):
    head = bytes([1 + len(data) % 3, 1 + len(data) % 4, 3])
    for candidate in (data, head + data):
        with contextlib.suppress(FormatError, UnsupportedError):
            decode_sketch(candidate)


def test_data_is_not_kept_alive_or_changed():
    data = bytearray(ESTIMATING)
    sketch = decode_sketch(memoryview(data))
    hashes = sketch.hashes.tolist()
    data[:] = bytes(len(data))
    assert sketch.hashes.tolist() == hashes
    values: list[Any] = [number.to_bytes(8, "little") for number in range(3000)]
    assert (sketch.theta, hashes) == alpha(values, 512)
