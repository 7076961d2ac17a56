"""Binary blocks: each direction against the other, and against plain Python; proof of what was used; dictionaries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_streams import byte_block

from skerry.amudai.blocks import (
    Blocks,
    decode_binary,
    decode_block_map,
    decode_byte_values,
    encode_binary,
    encode_binary_block,
    encode_binary_buffer,
    gather_byte_values,
    gather_fixed,
)
from skerry.amudai.encodings.byte_values import Strings
from skerry.amudai.encodings.codes import Encoding, Profile
from skerry.amudai.encodings.fsst import encode_with, train_symbols
from skerry.amudai.encodings.plans import Plan
from skerry.errors import FormatError, UnsupportedError

E = Encoding
BINARY = [E.PLAIN, E.SINGLE_VALUE, E.BLOCK_DICTIONARY, E.FSST, E.ZSTD, E.LZ4]
RANDOM = np.random.default_rng(11)
WORDS = [b"the", b"quick", b"brown", b"fox", b"https://www.example.com/", b"", b"lazy dog", b"\xff\x00"]


def strings_of(values, fixed_size=None):
    """A block of values, None for nulls."""
    null = b"" if fixed_size is None else bytes(fixed_size)
    content = [null if value is None else value for value in values]
    offsets = np.cumsum([0, *map(len, content)], dtype=np.int64)
    valid = np.array([value is not None for value in values])
    return Strings(offsets, np.frombuffer(b"".join(content), np.uint8), None if valid.all() else valid, fixed_size)


def values_of(found, count, fixed_size):
    data = found.data.tobytes()
    edges = [i * fixed_size for i in range(count + 1)] if found.offsets is None else found.offsets.tolist()
    flags = [True] * count
    if found.validity is not None:
        flags = np.unpackbits(found.validity, count=count, bitorder="little").astype(bool).tolist()
    assert found.null_count == flags.count(False)
    pairs = zip(itertools.pairwise(edges), flags, strict=True)
    return [data[start:end] if flag else None for (start, end), flag in pairs]


def one_block(block, count):
    edges = np.array([0, len(block)])
    return Blocks(np.frombuffer(block, np.uint8), edges[:1], edges[1:], np.array([count]))


def texts(count):
    return [b" ".join(WORDS[i] for i in RANDOM.integers(0, len(WORDS), RANDOM.integers(0, 8))) for _ in range(count)]


SHAPES = {
    "texts": texts(700),
    "few": [WORDS[i] for i in RANDOM.integers(0, len(WORDS), 700)],
    "equal": [b"same!"] * 700,
    "random": [RANDOM.bytes(n) for n in RANDOM.integers(0, 30, 700).tolist()],
    "empty": [b""] * 700,
    "long": [b"x" * 70_000, b"", b"y"],
    "one": [b"a"],
}
PLANS = [Plan(code) for code in BINARY] + [
    Plan(E.ZSTD, (None,)),
    Plan(E.LZ4, (Plan(E.FRAME_OF_REFERENCE),)),
    Plan(E.FSST, (Plan(E.DELTA, (Plan(E.BLOCK_DICTIONARY),)),)),
    Plan(E.BLOCK_DICTIONARY, (Plan(E.RUN_LENGTH), Plan(E.BIT_PACKING))),
    Plan(E.BLOCK_DICTIONARY, (Plan(E.ZSTD), Plan(E.SINGLE_VALUE))),
]


@pytest.mark.parametrize("fixed_size", [None, 0, 1, 3, 16])
@pytest.mark.parametrize("share_of_nulls", [0.0, 0.003, 0.5, 0.999, 1.0])
def test_every_encoding_keeps_every_shape(fixed_size, share_of_nulls):
    for name, shape in SHAPES.items():
        values = shape if fixed_size is None else [value[:fixed_size].ljust(fixed_size, b".") for value in shape]
        values = [None if RANDOM.random() < share_of_nulls else value for value in values]
        for wish in PLANS:
            block = encode_binary_block(strings_of(values, fixed_size), wish)
            found = decode_byte_values(one_block(block, len(values)), fixed_size)
            assert values_of(found, len(values), fixed_size) == values, (name, str(wish))
            if name != "long" or wish.encoding != E.FSST:
                assert byte_block(block, len(values), fixed_size) == values, (name, str(wish))


# What each encoding is for: a forced plan must show in the bytes.
PROOFS = {
    E.PLAIN: "random",
    E.SINGLE_VALUE: "equal",
    E.BLOCK_DICTIONARY: "few",
    E.FSST: "texts",
    E.ZSTD: "texts",
    E.LZ4: "texts",
}


@pytest.mark.parametrize("encoding", BINARY)
def test_a_forced_encoding_is_used(encoding):
    shape = SHAPES[PROOFS[encoding]]
    for values in (shape, [None if i % 7 == 3 else value for i, value in enumerate(shape)]):
        strings = strings_of(values)
        built = encode_binary_buffer(
            strings.offsets, strings.data, strings.valid, plan=Plan(encoding), block_values=300
        )
        blocks = blocks_of(built)
        assert len(blocks.counts) == 3
        for start in blocks.starts.tolist():
            presence_bytes = int.from_bytes(built.data[start : start + 4], "little")
            section = start + 8 + -(-presence_bytes // 8) * 8
            assert int.from_bytes(built.data[section : section + 2], "little") == encoding
        assert values_of(decode_byte_values(blocks, None), 700, None) == values


def blocks_of(built):
    block_map = decode_block_map(built.data[-built.map_bytes :], buffer_size=len(built.data))
    end = block_map.byte_range(0, block_map.block_count)[1]
    return block_map.blocks(built.data[:end], 0, block_map.block_count, has_checksums=True)


def test_small_blocks_have_the_bytes_that_the_format_says():
    section = encode_binary(strings_of([b"ab", b"", b"c"]), Plan(E.PLAIN))
    assert section == b"\x01\0\x08" + b"".join(n.to_bytes(8, "little") for n in (0, 2, 2, 3)) + b"abc"
    assert encode_binary(strings_of([b"ab", b"cd"], 2), Plan(E.PLAIN)) == b"\x01\0\0abcd"
    assert encode_binary(strings_of([b"ab", None, b"ab"]), Plan(E.SINGLE_VALUE)) == b"\x07\0ab"
    offsets, data = decode_binary(section, 3)
    assert (offsets.tolist(), data.tobytes()) == ([0, 2, 2, 3], b"abc")


def test_a_single_value_that_is_none_becomes_a_dictionary():
    section = encode_binary(strings_of([b"ab", b"cd"]), Plan(E.SINGLE_VALUE))
    assert section[:2] == b"\x0e\0"


@given(
    values=st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=40),
    wish=st.sampled_from(PLANS),
    profile=st.sampled_from(Profile),
    offset_dtype=st.sampled_from([np.int32, np.int64]),
)
@settings(max_examples=150)
def test_any_values_of_any_plan(values, wish, profile, offset_dtype):
    block = encode_binary_block(strings_of(values), wish, profile=profile)
    found = decode_byte_values(one_block(block, len(values)), None, offset_dtype=offset_dtype)
    assert found.offsets.dtype == offset_dtype
    assert len(found.data) == found.offsets[-1]
    assert values_of(found, len(values), None) == values == byte_block(block, len(values), None)


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("fixed_size", [None, 16])
def test_what_a_profile_chooses_keeps_all_values(profile, fixed_size):
    for shape in SHAPES.values():
        values = [None if RANDOM.random() < 0.1 else value for value in shape]
        if fixed_size is not None:
            values = [value and value[:fixed_size].ljust(fixed_size, b".") for value in values]
            values = [value or None for value in values]
        strings = strings_of(values, fixed_size)
        offsets = strings.offsets if fixed_size is None else None
        built = encode_binary_buffer(offsets, strings.data, strings.valid, fixed_size=fixed_size, profile=profile)
        assert fixed_size is None or all(wish.encoding != E.BLOCK_DICTIONARY for wish in built.plans)
        found = decode_byte_values(blocks_of(built), fixed_size)
        assert values_of(found, len(values), fixed_size) == values


def test_the_default_profile_chooses_what_suits():
    lines = texts(5000)
    strings = strings_of(lines)
    assert encode_binary_buffer(strings.offsets, strings.data, None).plans[0].encoding in (E.FSST, E.ZSTD)
    fast = encode_binary_buffer(strings.offsets, strings.data, None, profile=Profile.FAST)
    assert fast.plans[0].encoding == E.LZ4
    few = strings_of([WORDS[i] for i in RANDOM.integers(0, len(WORDS), 5000)])
    assert encode_binary_buffer(few.offsets, few.data, None).plans[0].encoding == E.BLOCK_DICTIONARY
    noise = strings_of([RANDOM.bytes(400) for _ in range(500)])
    assert encode_binary_buffer(noise.offsets, noise.data, None).plans[0].encoding == E.PLAIN


def test_blocks_are_cut_by_bytes_too():
    strings = strings_of([b"z" * 100_000] * 7)
    built = encode_binary_buffer(strings.offsets, strings.data, None, profile=Profile.PLAIN)
    assert blocks_of(built).counts.tolist() == [2, 2, 2, 1]


def test_symbols_stand_for_what_is_frequent():
    text = np.frombuffer(b" ".join(texts(3000)), np.uint8)
    table = train_symbols(text)
    assert len(table.symbols) <= 255
    assert len(encode_with(table, text)) * 3 < len(text)
    assert train_symbols(text[:0]).symbols.tolist() == []


def test_symbols_of_other_values_do_no_harm():
    table = train_symbols(np.frombuffer(b"https://" * 100, np.uint8))
    strings = strings_of([bytes(range(256)), b"https", b"http"])
    found, data = decode_binary(encode_binary(strings, Plan(E.FSST), symbols=table), 3)
    assert (found.tolist(), data.tobytes()) == (strings.offsets.tolist(), strings.data.tobytes())


def test_too_many_bytes_are_refused_before_they_are_there():
    block = encode_binary_block(strings_of([b"x" * 5000] * 1000), Plan(E.SINGLE_VALUE))
    blocks = one_block(block, 1000)
    with pytest.raises(FormatError, match="expected at most 4000000"):
        decode_byte_values(blocks, None, max_bytes=4_000_000)
    huge = Blocks(blocks.data, blocks.starts, blocks.ends, np.array([500_000]))
    with pytest.raises(UnsupportedError, match="32-bit offsets"):
        decode_byte_values(huge, None)


ENTRIES = [b"", b"abc", b"0123456789" * 3, b"q"]


@pytest.mark.parametrize("offset_dtype", [np.int32, np.int64])
def test_ids_become_the_values_they_stand_for(offset_dtype):
    strings = strings_of(ENTRIES)
    ids = RANDOM.integers(0, 4, 1001).astype(np.uint32)
    found = gather_byte_values(ids, strings.offsets, strings.data, null_id=0, offset_dtype=offset_dtype)
    assert values_of(found, 1001, None) == [None if i == 0 else ENTRIES[i] for i in ids.tolist()]
    plain = gather_byte_values(ids, strings.offsets, strings.data, null_id=None)
    assert (plain.validity, values_of(plain, 1001, None)) == (None, [ENTRIES[i] for i in ids.tolist()])
    fixed = gather_fixed(ids, 3, np.arange(12, dtype=np.uint8), null_id=2)
    assert values_of(fixed, 1001, 3) == [None if i == 2 else bytes(range(3 * i, 3 * i + 3)) for i in ids.tolist()]
    assert values_of(gather_byte_values(ids[:0], strings.offsets, strings.data, null_id=None), 0, None) == []


def test_ids_without_an_entry_are_refused():
    strings = strings_of(ENTRIES)
    with pytest.raises(FormatError, match="id 4 of value 2 in a dictionary of 4"):
        gather_byte_values(np.array([0, 3, 4], np.uint32), strings.offsets, strings.data, null_id=None)
