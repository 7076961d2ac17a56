"""Columns of integers that the footer makes timestamps."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skerry.errors import FormatError
from skerry.parquet import annotate_timestamps

MICROS, MILLIS, NANOS = pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.timestamp("ns")


def parquet_file(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False)
    return sink.getvalue().to_pybytes()


def test_integers_become_timestamps() -> None:
    nested = pa.struct([("a", pa.int64()), ("b", pa.int64())])
    data = pa.table(
        {
            **{f"n{i}": pa.array([i], pa.int64()) for i in range(14)},  # a list of more than 14 has a longer header
            "s": pa.array([{"a": -1, "b": 2**62}], nested),
        }
    )
    file = parquet_file(data)
    found = annotate_timestamps(file, {1: MICROS, 14: NANOS, 17: MILLIS})
    read = pq.read_table(pa.BufferReader(found))
    assert read.schema.field("n0").type == MICROS
    assert read.schema.field("n13").type == NANOS
    assert read.schema.field("s").type == pa.struct([("a", pa.int64()), ("b", MILLIS)])
    assert read["n0"].cast(pa.int64()).to_pylist() == [0]
    assert read["n5"].to_pylist() == [5]
    assert read["s"].combine_chunks().field("b").cast(pa.int64()).to_pylist() == [2**62]


@pytest.mark.parametrize("cut", [0, 3, 8, 20])
def test_what_is_no_tail(cut: int) -> None:
    file = parquet_file(pa.table({"n": [1]}))
    with pytest.raises(FormatError):
        annotate_timestamps(file[-30:][:cut], {1: MICROS})


def test_a_footer_that_begins_otherwise() -> None:
    with pytest.raises(FormatError, match="begin with a version"):
        annotate_timestamps(b"\x19\x00\x00" + (3).to_bytes(4, "little") + b"PAR1", {1: MICROS})
    with pytest.raises(FormatError, match="cut short"):
        annotate_timestamps(b"\x15\x04\x19" + (3).to_bytes(4, "little") + b"PAR1", {1: MICROS})
