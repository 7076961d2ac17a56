"""Batches for Spark: neither too many rows nor too many bytes, in types that it takes, and the same rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from skerry.spark.outgoing import for_spark


@pytest.mark.parametrize(
    ("count", "width", "parts"), [(0, 8, 0), (1, 8, 1), (32_768, 8, 1), (131_072, 8, 4), (40, 1 << 20, 3)]
)
def test_rows_are_the_same_in_batches_of_a_good_size(count: int, width: int, parts: int) -> None:
    batch = pa.record_batch(
        {"k": pa.array(range(count), pa.int64()), "s": pa.array(["x" * (width - 8)] * count, pa.string())}
    )
    cut = list(for_spark([batch]))
    assert len(cut) == parts
    assert pa.Table.from_batches(cut, batch.schema).equals(pa.Table.from_batches([batch]))
    assert all(part.num_rows <= 32_768 and part.nbytes <= 17 << 20 for part in cut)


def test_types_that_spark_does_not_take_are_converted_wherever_they_are() -> None:
    fixed = pa.array([b"abcdabcdabcdabcd", None], pa.binary(16))
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), fixed)
    times = pa.array([5, None], pa.time64("us"))
    nanos = pa.array([5_999, None], pa.timestamp("ns", "UTC"))
    columns = {
        "u": uuids,
        "b": fixed,
        "t": times,
        "n": nanos,
        "s": pa.StructArray.from_arrays([uuids, nanos], ["u", "n"]),
        "l": pa.ListArray.from_arrays(pa.array([0, 1, 2]), uuids),
        "m": pa.MapArray.from_arrays(pa.array([0, 1, 2]), pa.array(["a", "b"]), times),
        "k": pa.array([1, 2]),
    }
    (found,) = for_spark([pa.record_batch(columns)])
    raw = b"abcdabcdabcdabcd"
    assert [str(type_) for type_ in found.schema.types[:4]] == [
        "binary",
        "binary",
        "time64[ns]",
        "timestamp[us, tz=UTC]",
    ]
    assert found.schema.field("l").type.value_type == pa.binary()
    assert found.schema.field("m").type.item_type == pa.time64("ns")
    row = found.slice(0, 1).to_pydict()
    assert (row["u"], row["b"], row["l"]) == ([raw], [raw], [[raw]])
    assert found.column("t").cast(pa.int64()).to_pylist() == [5_000, None]
    assert found.column("n").cast(pa.int64()).to_pylist() == [5, None]
    assert [type_.type for type_ in found.schema.field("s").type] == [pa.binary(), pa.timestamp("us", "UTC")]
