"""Single values out of blocks: the same as those of decoded blocks, and without decoding where that can be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from golden_shards import GoldenShard, golden_shards
from hypothesis import given
from hypothesis import strategies as st

from skerry import amudai
from skerry.amudai.blocks import taking
from skerry.errors import NotFoundError, SkerryError

_GOLDEN = [shard for shard in golden_shards() if shard.name not in ("flights", "many-blocks", "wide")]


@pytest.mark.parametrize("shard", _GOLDEN, ids=lambda shard: shard.name)
def test_taken_values_are_those_of_decoded_blocks(shard: GoldenShard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "_MIN_SHARE", 1)  # takes however many are wanted
    file = amudai.ShardFile(shard.path)
    rows = np.unique(np.random.default_rng(5).integers(0, max(file.num_rows, 1), 50))
    if file.num_rows < 5:
        return
    whole = file.read(use_threads=False)
    taken = file.take(rows)
    for name in whole.column_names:
        values = whole[name].to_pylist()
        assert repr(taken[name].to_pylist()) == repr([values[row] for row in rows]), name


def _written(values: np.ndarray, nulls: np.ndarray | None, path: Path, profile: str) -> amudai.ShardFile:
    amudai.write_table(pa.table({"c": pa.array(values, mask=nulls)}), path, profile=profile, overwrite=True)
    return amudai.ShardFile(path)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("profile", ["plain", "fast"])
def test_packed_and_plain_blocks_are_not_decoded(
    dtype: type, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = np.iinfo(dtype)
    numbers = (np.random.default_rng(1).integers(0, 60, 20_000) + limits.max // 4).astype(dtype)
    nulls = (np.arange(20_000) % 3 == 0) & (profile == "plain")
    file = _written(numbers, nulls, tmp_path / "data.amudai.shard", profile)
    rows = [0, 4, 1023, 1024, 5000, 5002, 19_999]
    expected = [None if nulls[row] else int(numbers[row]) for row in rows]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a block was decoded")

    monkeypatch.setattr(taking, "decode_numbers", refuse)
    assert file.take(rows)["c"].to_pylist() == expected


@given(
    st.sampled_from([np.int8, np.uint16, np.int32, np.int64, np.float64]),
    st.sampled_from(["plain", "fast", "balanced", "small"]),
    st.integers(0, 3),
    st.integers(0, 2**32 - 1),
)
def test_any_block_gives_its_values(
    tmp_path_factory: pytest.TempPathFactory, dtype: type, profile: str, form: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    numbers = [
        generator.integers(0, 100, 5000),
        np.arange(5000) // 7,
        generator.choice([1, 50, 99], 5000),
        np.where(generator.random(5000) < 0.999, 0, 7),
    ][form].astype(dtype)
    nulls = generator.random(5000) < [0, 0.005, 0.4, 0.999][seed % 4]
    file = _written(numbers, nulls, tmp_path_factory.mktemp("shard") / "data.amudai.shard", profile)
    rows = np.unique(generator.integers(0, 5000, 30))
    expected = [None if nulls[row] else numbers[row].item() for row in rows]
    assert file.take(rows)["c"].to_pylist() == expected


@pytest.mark.parametrize(
    "positions",
    [[1 << 70], [-1], [3], ["a"], [None], [1.5], [1.0], [True], [b"1"], [float("nan")], np.array([0.5]), [[0], [1, 2]]],
    ids=str,
)
def test_positions_that_are_none_are_refused(positions: object, tmp_path: Path) -> None:
    amudai.write_table(pa.table({"x": [10, 11, 12]}), tmp_path / "data.amudai.shard")
    file = amudai.ShardFile(tmp_path / "data.amudai.shard")
    with pytest.raises(SkerryError):
        file.take(positions)  # type: ignore[arg-type]


@pytest.mark.parametrize("ordinal", [-1, 1])
def test_stripes_that_do_not_exist_are_refused(ordinal: int, tmp_path: Path) -> None:
    amudai.write_table(pa.table({"x": [10, 11, 12]}), tmp_path / "data.amudai.shard")
    file = amudai.ShardFile(tmp_path / "data.amudai.shard")
    with pytest.raises(NotFoundError, match=f"stripe {ordinal} of 1"):
        file.read(stripes=[ordinal])
    with pytest.raises(NotFoundError, match=f"stripe {ordinal} of 1"):
        next(file.iter_batches(stripes=[ordinal]))


@pytest.mark.parametrize(
    "positions",
    [
        [2, 0],
        (2, 0),
        np.array([2, 0], np.uint8),
        pa.array([2, 0]),
        [np.int16(2), np.uint64(0)],
        range(2, -1, -2),
    ],
)
def test_positions_of_any_integer_type_are_taken(positions: object, tmp_path: Path) -> None:
    amudai.write_table(pa.table({"x": [10, 11, 12]}), tmp_path / "data.amudai.shard")
    file = amudai.ShardFile(tmp_path / "data.amudai.shard")
    assert file.take(positions)["x"].to_pylist() == [12, 10]  # type: ignore[arg-type]
    assert file.take([]).num_rows == 0
