"""Numeric streams and blocks: each direction against the other, and against plain Python; proof of what was used."""

from __future__ import annotations

import importlib
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_streams import BYTES, NUMBERS, number_block, stream

from skerry.amudai.blocks import (
    Blocks,
    decode_block_map,
    decode_numbers,
    decode_numeric,
    encode_numeric,
    encode_numeric_block,
    encode_numeric_buffer,
)
from skerry.amudai.encodings.codes import DTYPES, Encoding, Profile
from skerry.amudai.encodings.plans import Plan

E = Encoding
NUMERIC = [code for code in Encoding if code != E.FSST]
RANDOM = np.random.default_rng(7)
SEEDED = RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers():
    """Every test draws the same numbers, whichever ran before it."""
    RANDOM.bit_generator.state = SEEDED


PACKED, FRAMED = Plan(E.BIT_PACKING), Plan(E.FUSED_FRAME_OF_REFERENCE)


def plan(encoding, *parts):
    return Plan(encoding, parts)


# The bytes of small streams, written by hand: (type, values, plan, bytes).
SMALL = [
    ("<i4", [1, -1], plan(E.PLAIN), b"\x01\0" + struct.pack("<2i", 1, -1)),
    ("<i2", [-2, -2, -2], plan(E.SINGLE_VALUE), b"\x07\0\xfe\xff"),
    ("u1", [3] + [0] * 1023, PACKED, b"\x02\0\x02" + bytes(5) + b"\x03" + bytes(255)),
    ("<u2", [0, 1] + [0] * 1022, PACKED, b"\x02\0\x01" + bytes(5) + bytes(2) + b"\x01" + bytes(125)),
    ("<i8", [-5, 300], plan(E.TRUNCATE_16), b"\x09\0" + bytes(6) + struct.pack("<2h", -5, 300)),
    ("<i4", [-5, 100], plan(E.TRUNCATE_8), b"\x08\0" + bytes(6) + struct.pack("<2b", -5, 100)),
    ("<i4", [0, -1, 1, -2], plan(E.ZIG_ZAG), b"\x12\0" + bytes(6) + struct.pack("<4I", 0, 1, 2, 3)),
    (
        "<u4",
        [9, 9, 9, 7],
        plan(E.RUN_LENGTH),
        b"\x06\0" + struct.pack("<II", 8, 2) + bytes(6) + struct.pack("<4I", 9, 7, 3, 1),
    ),
    (
        "<i2",
        [0, 0, 5, 0],
        plan(E.SPARSE),
        b"\x13\0" + struct.pack("<II", 1, 4) + bytes(6) + struct.pack("<I4xh", 2, 5),
    ),
    (
        "<f8",
        [1.5, 1.5],
        plan(E.BLOCK_DICTIONARY, plan(E.PLAIN)),
        b"\x0e\0"
        + struct.pack("<II", 10, 1)
        + bytes(6)
        + b"\x01\0"
        + struct.pack("<2I", 1, 1)
        + struct.pack("<d", 1.5),
    ),
    ("<u8", [7, 9, 8], plan(E.LZ4), None),
]


@pytest.mark.parametrize(("dtype", "values", "wish", "content"), SMALL)
def test_bytes_of_small_streams(dtype, values, wish, content):
    array = np.array(values, dtype)
    encoded = encode_numeric(array, wish)
    if content is not None:
        assert encoded == content
    assert decode_numeric(encoded, dtype, len(values)).tolist() == values
    assert stream(encoded, dtype, len(values)).tolist() == values


def shapes(dtype, count):
    """Values of many shapes, by name."""
    if dtype.kind == "f":
        return {
            "random bits": RANDOM.integers(0, 256, count * dtype.itemsize).astype("u1").view(dtype),
            "decimals": (RANDOM.integers(-999, 999, count) / 10).astype(dtype),
            "of one magnitude": ((1 + RANDOM.random(count)) / 1024).astype(dtype),
            "odd ones": np.resize(np.array([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, 0.1]), count).astype(
                dtype
            ),
            "equal": np.full(count, 0.1, dtype),
            "mostly zero": np.where(RANDOM.random(count) < 0.003, 2.5, 0.0).astype(dtype),
            "runs": np.repeat(RANDOM.random(count // 9 + 1), 9)[:count].astype(dtype),
        }
    limits = np.iinfo(dtype)
    return {
        "random bits": RANDOM.integers(0, 256, count * dtype.itemsize).astype("u1").view(dtype),
        "few bits": RANDOM.integers(0, 7, count).astype(dtype),
        "far from zero": (limits.max - RANDOM.integers(0, 100, count).astype(dtype)).astype(dtype),
        "rising": np.arange(count).astype(dtype),
        "extremes": np.resize(np.array([limits.min, limits.max, 0], dtype), count),
        "equal": np.full(count, limits.max, dtype),
        "zero": np.zeros(count, dtype),
        "rarely large": np.where(
            RANDOM.random(count) < 0.004, RANDOM.integers(0, 256, count * dtype.itemsize).astype("u1").view(dtype), 0
        ).astype(dtype),
        "mostly zero": np.where(RANDOM.random(count) < 0.01, 3, 0).astype(dtype),
        "runs": np.repeat(RANDOM.integers(0, 50, count // 9 + 1), 9)[:count].astype(dtype),
    }


DEEP = [
    plan(E.FRAME_OF_REFERENCE, plan(E.RUN_LENGTH, PACKED, PACKED)),
    plan(E.DELTA, plan(E.DELTA, plan(E.ZIG_ZAG, PACKED))),
    plan(E.RUN_LENGTH, FRAMED, plan(E.DELTA)),
    plan(E.TRUNCATE_8, plan(E.ZSTD)),
    plan(E.TRUNCATE_32, plan(E.LZ4)),
    plan(E.ALP, plan(E.DELTA, plan(E.TRUNCATE_16, plan(E.ZSTD)))),
    plan(E.BLOCK_DICTIONARY, plan(E.RUN_LENGTH), plan(E.DELTA)),
    plan(E.SPARSE, plan(E.DELTA), plan(E.BLOCK_DICTIONARY)),
    plan(E.BLOCK_DICTIONARY, plan(E.ZSTD), plan(E.PLAIN)),
]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("count", [1, 2, 8, 1023, 1024, 1025, 2500])
def test_every_encoding_keeps_all_bits_of_every_shape(dtype, count):
    for name, values in shapes(dtype, count).items():
        for wish in [Plan(code) for code in NUMERIC] + DEEP:
            decoded = decode_numeric(encode_numeric(values, wish), dtype, count)
            assert decoded.tobytes() == values.tobytes(), (name, str(wish))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_plain_python_reads_the_same(dtype):
    for name, values in shapes(dtype, 1100).items():
        for wish in [Plan(code) for code in NUMERIC] + DEEP[:4]:
            encoded = encode_numeric(values, wish)
            assert stream(encoded, dtype, len(values)).tobytes() == values.tobytes(), (name, str(wish))


# What each encoding is for: (encoding, type, shape). A forced plan must show in the bytes.
PROOFS = [
    (E.PLAIN, "<f4", "random bits"),
    (E.BIT_PACKING, "<u4", "few bits"),
    (E.FRAME_OF_REFERENCE, "<i8", "far from zero"),
    (E.FUSED_FRAME_OF_REFERENCE, "<i2", "far from zero"),
    (E.DELTA, "<i4", "rising"),
    (E.RUN_LENGTH, "<f8", "runs"),
    (E.SINGLE_VALUE, "<f8", "equal"),
    (E.TRUNCATE_8, "<i2", "few bits"),
    (E.TRUNCATE_16, "<i4", "rising"),
    (E.TRUNCATE_32, "<i8", "rising"),
    (E.TRUNCATE_64, "<i8", "random bits"),
    (E.ALP, "<f8", "decimals"),
    (E.ALP, "<f4", "decimals"),
    (E.ALP_RD, "<f8", "of one magnitude"),
    (E.ALP_RD, "<f4", "of one magnitude"),
    (E.BLOCK_DICTIONARY, "<i8", "extremes"),
    (E.ZSTD, "<u8", "rising"),
    (E.LZ4, "<u8", "rising"),
    (E.ZIG_ZAG, "<i4", "rising"),
    (E.SPARSE, "<f8", "mostly zero"),
]


@pytest.mark.parametrize(("encoding", "dtype", "shape"), PROOFS)
def test_a_forced_encoding_is_used(encoding, dtype, shape):
    values = shapes(np.dtype(dtype), 3000)[shape]
    valid = RANDOM.random(3000) < 0.9
    for flags in (None, valid):
        built = encode_numeric_buffer(values, flags, plan=Plan(encoding), block_values=1500)
        data, blocks = blocks_of(built)
        assert {int.from_bytes(block_code(data, start), "little") for start in blocks.starts.tolist()} == {encoding}
        found = decode_numbers(blocks, dtype, has_presence=True)
        keep = np.ones(3000, bool) if flags is None else flags
        assert found.values[keep].tobytes() == values[keep].tobytes()
        assert found.null_count == 3000 - np.count_nonzero(keep)


def test_every_encoding_is_proven():
    assert {encoding for encoding, _, _ in PROOFS} == set(NUMERIC)


def test_every_encoding_has_a_module_and_a_twin_in_plain_python():
    for encoding in Encoding:
        name = "truncate" if encoding.name.startswith("TRUNCATE") else encoding.name.lower()
        module = importlib.import_module(f"skerry.amudai.encodings.{name}")
        assert encoding in getattr(module, "CODES", [getattr(module, "CODE", None)])
        for twins, function in ((NUMBERS, "decode"), (BYTES, "decode_bytes")):
            assert hasattr(module, function) == (encoding in twins)
            if encoding in twins:
                assert twins[encoding].__name__ == name + function.removeprefix("decode")


def blocks_of(built, has_checksums=True):
    block_map = decode_block_map(built.data[-built.map_bytes :], buffer_size=len(built.data))
    end = block_map.byte_range(0, block_map.block_count)[1]
    assert built.data[end : -built.map_bytes] == bytes(len(built.data) - built.map_bytes - end)
    blocks = block_map.blocks(built.data[:end], 0, block_map.block_count, has_checksums=has_checksums)
    return built.data, blocks


def block_code(data, start):
    presence_bytes = int.from_bytes(data[start : start + 4], "little")
    values = start + 8 + -(-presence_bytes // 8) * 8
    return data[values : values + 2]


@given(data=st.data())
@settings(max_examples=150)
def test_any_block_of_any_plan_decodes_to_its_values(data):
    dtype = data.draw(st.sampled_from(DTYPES))
    count = data.draw(st.integers(1, 60))
    raw = data.draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    values = np.frombuffer(raw, dtype)
    if data.draw(st.booleans()):
        values = values[
            np.array(data.draw(st.lists(st.integers(0, min(3, count - 1)), min_size=count, max_size=count)))
        ]
    valid = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    wish = data.draw(plans)
    profile = data.draw(st.sampled_from(Profile))
    has_checksum = data.draw(st.booleans())
    block = encode_numeric_block(values, valid, wish, profile=profile, has_checksum=has_checksum)
    assert len(block) % 8 == 0
    found = decode_numbers(one_block(block, count, has_checksum), dtype, has_presence=True)
    assert found.values[valid].tobytes() == values[valid].tobytes()
    flags = np.ones(count, bool) if found.validity is None else np.unpackbits(found.validity, bitorder="little")[:count]
    assert flags.astype(bool).tolist() == valid.tolist()
    if dtype.kind != "f":
        expected = [value if flag else None for value, flag in zip(values.tolist(), valid.tolist(), strict=True)]
        assert number_block(block, dtype, count) == expected


plans = st.recursive(
    st.builds(Plan, st.sampled_from(NUMERIC)),
    lambda inner: st.builds(Plan, st.sampled_from(NUMERIC), st.tuples(st.none() | inner, st.none() | inner)),
    max_leaves=6,
)


def one_block(block, count, has_checksums=True):
    edges = np.array([0, len(block)])
    return Blocks(np.frombuffer(block, np.uint8), edges[:1], edges[1:], np.array([count]), has_checksums)


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_what_a_profile_chooses_keeps_all_bits(profile, dtype):
    valid = RANDOM.random(5000) < 0.97
    for name, values in shapes(dtype, 5000).items():
        for flags in (None, valid):
            built = encode_numeric_buffer(values, flags, profile=profile, block_values=2000)
            _, blocks = blocks_of(built)
            found = decode_numbers(blocks, dtype, has_presence=True)
            keep = slice(None) if flags is None else flags
            assert found.values[keep].tobytes() == values[keep].tobytes(), name
            if profile == Profile.PLAIN:
                assert built.plans == (Plan(E.PLAIN),)


# What the default profile makes of columns as they occur: (type, shape, encodings that the plan must have).
CHOICES = [
    ("<i8", "equal", {E.SINGLE_VALUE}),
    ("<i8", "rising", {E.DELTA}),
    ("<u4", "few bits", {E.FUSED_FRAME_OF_REFERENCE}),
    ("<i8", "far from zero", {E.FUSED_FRAME_OF_REFERENCE}),
    ("<f8", "decimals", {E.ALP}),
    ("<f8", "of one magnitude", {E.ALP_RD}),
    ("<i8", "rarely large", {E.SPARSE}),
    ("<i4", "runs", {E.RUN_LENGTH}),
    ("<f8", "random bits", {E.PLAIN}),
    ("<i8", "extremes", {E.BLOCK_DICTIONARY}),
]


@pytest.mark.parametrize(("dtype", "shape", "expected"), CHOICES)
def test_the_default_profile_chooses_what_suits(dtype, shape, expected):
    built = encode_numeric_buffer(shapes(np.dtype(dtype), 20_000)[shape], None)
    assert expected <= set(built.plans[0].encodings()), str(built.plans[0])


def test_empty_buffers_are_an_empty_map():
    built = encode_numeric_buffer(np.zeros(0, np.int64), None)
    assert (len(built.data), built.map_bytes, built.block_count) == (56, 56, 0)
    _, blocks = blocks_of(built)
    assert len(decode_numbers(blocks, np.int64, has_presence=True).values) == 0


def test_nested_packed_bits_lie_at_multiples_of_eight():
    values = np.repeat(RANDOM.random(700), 3).astype("<f8")
    encoded = encode_numeric(values, Plan(E.ALP_RD))
    entries = encoded[13]
    assert entries in (4, 8)
    assert (16 + 2 * entries + int.from_bytes(encoded[2:6], "little")) % 8 == 0


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("share_of_nulls", [None, 0.0, 0.01, 0.3, 0.97, 1.0])
def test_blocks_written_at_once_are_those_written_one_by_one(dtype, share_of_nulls):
    count, size = 5200, 1500
    flags = None if share_of_nulls is None else share_of_nulls <= RANDOM.random(count)
    for name, values in shapes(dtype, count).items():
        wish = FRAMED if dtype.kind != "f" else Plan(E.ALP, (FRAMED,), (6, 1) if name == "random bits" else (2, 0))
        for has_checksums in (True, False):
            options = {"plan": wish, "has_checksums": has_checksums}
            at_once = encode_numeric_buffer(values, flags, block_values=size, **options)
            data, blocks = blocks_of(at_once, has_checksums)
            assert blocks.counts.tolist() == [1500, 1500, 1500, 700]
            found = decode_numbers(blocks, dtype, has_presence=True)
            keep = np.ones(count, bool) if flags is None else flags
            assert found.values[keep].tobytes() == values[keep].tobytes(), name
            assert found.null_count == count - np.count_nonzero(keep)
            for block, start in enumerate(blocks.starts.tolist()):
                present = None if flags is None else flags[block * size : (block + 1) * size]
                part = values[block * size : (block + 1) * size]
                if present is None and dtype.kind != "f":
                    alone = encode_numeric_block(part, present, wish, has_checksum=has_checksums)
                    assert data[start : start + len(alone)] == alone
            if dtype.kind != "f" and not has_checksums:
                end = int(blocks.ends[0])
                expected = [
                    number if flag else None for number, flag in zip(values[:size].tolist(), keep, strict=False)
                ]
                assert number_block(data[:end], dtype, size) == expected
