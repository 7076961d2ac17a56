"""Shards that the Rust reference wrote, and how their content is compared with the tables they were written from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SHIPPED = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[3] / "shared" / "golden"

_EPOCH_TICKS = 621_355_968_000_000_000
_TICKS = {"s": 10_000_000, "ms": 10_000, "us": 10}


@dataclass(frozen=True)
class GoldenShard:
    """A shard and what it must read as."""

    name: str
    folder: Path

    @property
    def path(self) -> str:
        return str(self.folder / "data.amudai.shard")

    def expected(self) -> pa.Table:
        arrow = self.folder / "expected.arrow"
        if arrow.exists():
            return pa.ipc.open_file(str(arrow)).read_all()
        return pq.read_table(self.folder / "expected.parquet")


def golden_shards() -> list[GoldenShard]:
    """The shipped shards, and all others where they are at hand."""
    folders: dict[str, Path] = {}
    for root in (SHIPPED, SHARED / "amudai"):
        for path in sorted(root.glob("*/data.amudai.shard")):
            folders.setdefault(path.parent.name, path.parent)
    return [GoldenShard(name, folder) for name, folder in folders.items()]


def assert_same_values(actual: pa.ChunkedArray, expected: pa.ChunkedArray, name: str) -> None:
    """Compare columns by value: ticks of dates, decimals as numbers, floats by their bits except NaN."""
    left, right = _comparable(actual, expected.type), _comparable(expected, expected.type)
    if isinstance(left, list):
        assert left == right, name
    else:
        np.testing.assert_array_equal(left, right, err_msg=name)
        nulls = actual.is_null().to_numpy(), expected.is_null().to_numpy()
        np.testing.assert_array_equal(*nulls, err_msg=name)


def _comparable(column: pa.ChunkedArray, expected: pa.DataType) -> Any:
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_date(kind):
        return _ticks(column)
    if pa.types.is_floating(kind):
        values = column.fill_null(0).to_numpy()
        bits = values.view(np.uint32 if pa.types.is_float32(kind) else np.uint64)
        return np.where(np.isnan(values), bits.dtype.type(1), bits)
    if pa.types.is_integer(kind):
        return column.fill_null(0).to_numpy()
    return column.to_pylist()


def _ticks(column: pa.ChunkedArray) -> np.ndarray:
    kind = column.type
    if pa.types.is_date32(kind):
        days = column.cast(pa.int32()).fill_null(0).to_numpy().astype(np.int64)
        return np.where(column.is_null(), 0, days * 86_400 * _TICKS["s"] + _EPOCH_TICKS)
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    numbers = column.cast(pa.int64()).fill_null(0).to_numpy()
    if unit == "ns":
        assert not (numbers % 100).any()
        ticks = numbers // 100
    else:
        ticks = numbers * _TICKS[unit]
    return np.where(column.is_null(), 0, ticks if pa.types.is_duration(kind) else ticks + _EPOCH_TICKS)
