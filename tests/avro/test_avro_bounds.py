"""How much memory a small file can take, however well it is compressed."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

from skerry.avro import read_batches, read_columns, reader
from skerry.avro.container import encode_block, encode_header
from skerry.errors import FormatError, UnsupportedError

SYNC = bytes(16)
ROWS = 1 << 16


def avro_file(fields, codec, *blocks):
    """A file whose blocks are (number of records, bytes of the records)."""
    schema = f'{{"type": "record", "name": "r", "fields": [{", ".join(fields)}]}}'
    return encode_header(schema, codec, {}, SYNC) + b"".join(encode_block(n, data, codec, SYNC) for n, data in blocks)


LONG = '{"name": "a", "type": "long"}'
WIDE = ", ".join(f'{{"name": "f{number}", "type": "double"}}' for number in range(64))
MAYBE = f'{{"name": "a", "type": ["null", {{"type": "record", "name": "w", "fields": [{WIDE}]}}]}}'


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(reader, "MAX_BLOCK_BYTES", 1 << 20)
    monkeypatch.setattr(reader, "MAX_COLUMN_BYTES", 4 << 20)


@pytest.mark.parametrize("codec", ["deflate", "zstandard"])
def test_a_block_that_holds_far_more_than_its_bytes_is_refused_before_it_is_kept(codec):
    size = 80 << 20
    data = avro_file([LONG], codec, (size, bytes(size)))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="codec"):
            read_columns(data, location="bomb.avro")
        assert tracemalloc.get_traced_memory()[1] < reader.MAX_BLOCK_BYTES + (16 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard", "snappy"])
def test_many_blocks_that_compress_well_are_read(codec, small):
    values = np.zeros(ROWS, np.uint8).tobytes()
    data = avro_file([LONG], codec, *[(ROWS, values)] * 24)
    batches = list(read_batches(data))
    assert sum(batch.num_rows for batch in batches) == 24 * ROWS
    assert codec in ("null", "snappy") or len(batches) > 1, "a batch ends where its columns take too much"
    assert {batch.column(0).sum().as_py() for batch in batches} == {0}


def test_columns_of_null_records_are_divided_or_refused(small):
    block = (ROWS // 4, bytes(ROWS // 4))
    rows = sum(batch.num_rows for batch in read_batches(avro_file([MAYBE], "deflate", *[(4096, bytes(4096))] * 8)))
    assert rows == 8 * 4096
    with pytest.raises(UnsupportedError, match=r"columns would take \d+ bytes, more than the bound"):
        list(read_batches(avro_file([MAYBE], "deflate", block)))


def test_what_is_read_at_once_is_bounded_as_a_whole(small):
    data = avro_file([LONG], "deflate", *[(ROWS, bytes(ROWS))] * 24)
    with pytest.raises(UnsupportedError, match=r"would take more than \d+ bytes .*in many.avro"):
        read_columns(data, location="many.avro")
    few = read_columns(avro_file([LONG], "deflate", *[(ROWS, bytes(ROWS))] * 6), location="few.avro")
    assert few.num_rows == 6 * ROWS
    assert few.schema.names == ["a"]
    assert isinstance(few, pa.RecordBatch)
