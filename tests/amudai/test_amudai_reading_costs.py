"""What reading costs: requests and bytes follow what is asked for."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from skerry import amudai
from skerry.storage import Storage

ROWS = 200_000
STRIPE_ROWS = 50_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A shard of four stripes; numbers are random, so that no encoding makes them small."""
    generator = np.random.default_rng(3)
    columns = {f"random {n}": generator.integers(0, 1 << 62, ROWS) for n in range(8)}
    table = pa.table({"id": np.arange(ROWS), "text": [f"text {n % 5000}" for n in range(ROWS)], **columns})
    where = tmp_path_factory.mktemp("shard") / "data.amudai.shard"
    amudai.write_table(table, where, stripe_rows=STRIPE_ROWS, profile="fast")
    return where


def _opened(path: Path) -> tuple[amudai.ShardFile, Storage]:
    storage = Storage()
    return amudai.ShardFile(path, storage=storage), storage


def test_opening_takes_one_request(path: Path) -> None:
    file, storage = _opened(path)
    assert file.num_rows == ROWS
    assert file.schema.names[:2] == ["id", "text"]
    assert storage.metrics.requests == 1
    assert storage.metrics.bytes_read <= 64 * 1024


def test_a_projected_read_touches_its_columns_only(path: Path) -> None:
    file, storage = _opened(path)
    before = storage.metrics.counts()
    file.read(columns=["random 3"], use_threads=False)
    spent = storage.metrics.counts() - before
    assert 8 * ROWS < spent.bytes_read < 1.1 * 8 * ROWS
    whole_file, whole_storage = _opened(path)
    whole_file.read(use_threads=False)
    assert whole_storage.metrics.bytes_read > 7 * spent.bytes_read


def test_threads_read_the_same(path: Path) -> None:
    counts = []
    for use_threads in (False, True):
        file, storage = _opened(path)
        file.read(use_threads=use_threads)
        counts.append(storage.metrics.bytes_read)
    # several threads may check the header of the file
    assert abs(counts[0] - counts[1]) < 0.01 * counts[0]


def test_filters_skip_stripes(path: Path) -> None:
    file, storage = _opened(path)
    before = storage.metrics.counts()
    found = file.read(columns=["random 1"], filters=[("id", ">=", ROWS - 10)], use_threads=False)
    assert found.num_rows == 10
    spent = storage.metrics.counts() - before
    assert spent.bytes_read < 8 * STRIPE_ROWS / 2  # some blocks of one stripe of four


def test_filters_that_nothing_matches_read_no_values(path: Path) -> None:
    file, storage = _opened(path)
    before = storage.metrics.counts()
    assert file.read(filters=[("id", "=", -5)], use_threads=False).num_rows == 0
    spent = storage.metrics.counts() - before
    assert spent.bytes_read < 150_000  # descriptors


def test_filters_skip_blocks_by_the_range_index(path: Path) -> None:
    file, storage = _opened(path)
    before = storage.metrics.counts()
    found = file.read(columns=["random 5"], filters=[("id", "=", 123_456)], use_threads=False)
    assert found.num_rows == 1
    spent = storage.metrics.counts() - before
    assert spent.bytes_read < 400_000
    assert amudai.read_table(path, filters=[("random 5", "=", found["random 5"][0].as_py())])["id"].to_pylist() == [
        123_456
    ]


def test_rows_by_position_read_their_blocks(path: Path) -> None:
    file, storage = _opened(path)
    before = storage.metrics.counts()
    found = file.take([7, 150_007, 150_008], columns=["id", "random 2"])
    assert found["id"].to_pylist() == [7, 150_007, 150_008]
    spent = storage.metrics.counts() - before
    assert spent.bytes_read < 8 * STRIPE_ROWS


def test_batches_are_read_stripe_by_stripe(path: Path) -> None:
    file, storage = _opened(path)
    batches = file.iter_batches(10_000, use_threads=False)
    first = next(batches)
    assert first.num_rows == 10_000
    assert storage.metrics.bytes_read < 0.35 * path.stat().st_size
    assert sum(batch.num_rows for batch in batches) == ROWS - 10_000


def test_statistics_are_read_without_values(path: Path) -> None:
    file, storage = _opened(path)
    before = storage.metrics.counts()
    statistics = file.statistics("id")
    assert statistics is not None
    assert statistics.range is not None
    assert (statistics.range.low, statistics.range.high, statistics.null_count) == (0, ROWS - 1, 0)
    assert [each.range.low for each in file.stripe_statistics("id") if each and each.range] == [
        0,
        STRIPE_ROWS,
        2 * STRIPE_ROWS,
        3 * STRIPE_ROWS,
    ]
    assert (storage.metrics.counts() - before).bytes_read < 200_000


def test_batches_take_the_memory_of_some_stripes(path: Path, tmp_path: Path) -> None:
    amudai.write_table(amudai.read_table(path), tmp_path / "data.amudai.shard", stripe_rows=ROWS // 20, profile="fast")
    file, _ = _opened(tmp_path / "data.amudai.shard")
    next(file.iter_batches(1000, use_threads=False))  # loads the kernels
    tracemalloc.start()
    try:
        total = sum(batch.nbytes for batch in file.iter_batches(1000, use_threads=False))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total > 15_000_000
    assert peak < 4 * total / 20  # bytes and values of one stripe, values of the one before
