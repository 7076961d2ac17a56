"""Batches for Spark: neither too many rows nor too many bytes, and the same rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from skerry.spark.batch_sizes import cut_for_spark


@pytest.mark.parametrize(
    ("count", "width", "parts"), [(0, 8, 0), (1, 8, 1), (32_768, 8, 1), (131_072, 8, 4), (40, 1 << 20, 3)]
)
def test_rows_are_the_same_in_batches_of_a_good_size(count: int, width: int, parts: int) -> None:
    batch = pa.record_batch(
        {"k": pa.array(range(count), pa.int64()), "s": pa.array(["x" * (width - 8)] * count, pa.string())}
    )
    cut = list(cut_for_spark([batch]))
    assert len(cut) == parts
    assert pa.Table.from_batches(cut, batch.schema).equals(pa.Table.from_batches([batch]))
    assert all(part.num_rows <= 32_768 and part.nbytes <= 17 << 20 for part in cut)
