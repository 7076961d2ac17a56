"""Deflate and gzip: what zlib writes, and how little memory what lies takes."""

import gzip
import tracemalloc
import zlib

import pytest

from skerry.compression import decompress_deflate, decompress_gzip
from skerry.errors import FormatError


def bare(data):
    compressor = zlib.compressobj(wbits=-15)
    return compressor.compress(data) + compressor.flush()


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 100, bytes(9 << 20)])
def test_round_trip(data):
    assert decompress_deflate(bare(data) + b"xyz", max_bytes=len(data)) == (data, 3)
    assert decompress_gzip(gzip.compress(data) + gzip.compress(b"more"), max_bytes=len(data) + 4) == data + b"more"


@pytest.mark.parametrize("size", [100, 64 << 20])
def test_larger_content_than_expected_is_refused_before_it_is_kept(size):
    data, packed = bare(bytes(size)), gzip.compress(bytes(size), 1)
    tracemalloc.start()
    try:
        for act in (
            lambda: decompress_deflate(data, max_bytes=size - 1),
            lambda: decompress_gzip(packed, max_bytes=size - 1),
            lambda: decompress_gzip(gzip.compress(b"1234") * 2, max_bytes=7),
        ):
            with pytest.raises(FormatError, match="holds more than the expected"):
                act()
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [b"\xff\xff", b"", bare(b"long enough to be cut")[:-4]])
def test_damaged_and_cut_streams_are_refused(data):
    with pytest.raises(FormatError, match=r"not a deflate stream|is cut short"):
        decompress_deflate(data, max_bytes=1000)
    with pytest.raises(FormatError, match=r"not a gzip member|is cut short"):
        decompress_gzip(b"\x1f\x8b" + data, max_bytes=1000)
