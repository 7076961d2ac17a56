"""Merging by reference: the rows of all parts, corrected metadata, and no way out of the folder unless allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skerry.amudai.merging import merge
from skerry.amudai.reading.shard_file import ShardFile, read_table
from skerry.amudai.shard.schema import InternalKind
from skerry.amudai.values.types import INTERNAL_KIND_KEY
from skerry.amudai.writing.external_parquet import write_over_parquet
from skerry.amudai.writing.shard_writer import write_table
from skerry.errors import AlreadyExistsError, FormatError, SchemaError, UnsupportedError

TICKS = 638_000_000_000_000_000


def part(start: int, rows: int = 500) -> pa.Table:
    numbers = range(start, start + rows)
    return pa.table(
        {
            "n": pa.array(numbers, pa.int32()),
            "s": pa.array([f"v{i % 7}" if i % 5 else None for i in numbers], pa.string()),
            "l": pa.array([[i, None] if i % 3 else None for i in numbers], pa.list_(pa.int64())),
            "c": pa.array(["constant"] * rows, pa.string()),
        }
    )


def write(table: pa.Table, path: Path, **options: Any) -> Path:
    write_table(table, path, **{"stripe_rows": 200, "created_ticks": TICKS, **options})
    return path


def test_a_merged_shard_reads_as_its_parts_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "deep er").mkdir()
    tables = [part(0), part(500, 150), part(650, 10), part(0, 0)]
    paths = [
        write(tables[0], tmp_path / "a.shard"),
        write(tables[1], tmp_path / "deep er" / "b.shard", two_level=True, created_ticks=TICKS - 5),
        write(tables[2], tmp_path / "c.shard", created_ticks=TICKS + 7),
        write(tables[3], tmp_path / "d.shard"),
    ]
    sizes = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    written = merge(paths, tmp_path / "all.shard")
    expected = pa.concat_tables(tables)
    shard = ShardFile(tmp_path / "all.shard")
    assert shard.read().equals(expected)
    assert shard.schema.equals(expected.schema)
    assert written.record_count == shard.num_rows == 660
    assert [stripe.record_offset for stripe in shard.metadata.stripes] == [0, 200, 400, 500, 650]
    assert shard.take([649, 3, 650]).equals(expected.take([649, 3, 650]))
    assert shard.read(columns=["n"], filters=[("n", ">=", 655)])["n"].to_pylist() == list(range(655, 660))
    assert (tmp_path / "all.shard").stat().st_size < sizes
    assert all(not url.startswith(("/", "file:")) for url in shard.metadata.urls)
    assert len(shard.metadata.urls) == 3  # two roots, and the file of the stripe of the third


def test_metadata_of_the_parts_is_corrected(tmp_path: Path) -> None:
    a = write(part(0), tmp_path / "a.shard", properties={"p": 1, "q": "a"}, created_ticks=TICKS + 5)
    b = write(part(500), tmp_path / "b.shard", properties={"p": 1, "q": "b"}, standard_properties={"tag": "t"})
    merge([a, b], tmp_path / "all.shard")
    shard = ShardFile(tmp_path / "all.shard")
    bag = shard.properties
    assert bag.creation_min is not None
    assert bag.creation_max is not None
    assert (bag.creation_min.ticks, bag.creation_max.ticks) == (TICKS, TICKS + 5)
    names = [(item.name, item.value) for item in bag.custom if item.name != "ARROW:schema"]
    assert names == [("p", 1), ("q", "a"), ("p", 1), ("q", "b")]
    assert [item.name for item in bag.standard] == ["tag"]
    whole, parts = shard.statistics("n"), [ShardFile(path).statistics("n") for path in (a, b)]
    assert whole is not None
    assert whole.range is not None
    assert (whole.range.low, whole.range.high, whole.position_count) == (0, 999, 1000)
    assert whole.raw_data_size == sum(each.raw_data_size or 0 for each in parts if each)
    words = shard.statistics("s")
    assert words is not None
    assert (words.distinct_count, words.null_count, words.bloom_filter) == (7, 200, None)
    assert [found is not None and found.bloom_filter is not None for found in shard.stripe_statistics("s")] == [
        True
    ] * 6
    constant = shard.statistics("c")
    assert constant is not None
    assert constant.constant == "constant"


def test_merged_shards_can_be_merged_and_moved(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    ab = home / "ab.shard"
    merge([write(part(0), home / "a.shard"), write(part(500), home / "b.shard", two_level=True)], ab)
    merge([ab, write(part(1000), home / "c.shard"), ab], home / "all.shard")
    expected = pa.concat_tables([part(0), part(500), part(1000), part(0), part(500)])
    moved = home.rename(tmp_path / "moved")
    assert read_table(moved / "all.shard").equals(expected)
    (moved / "a.shard").unlink()
    with pytest.raises(FormatError, match="which does not exist"):
        read_table(moved / "all.shard")


def test_parts_outside_of_the_folder_are_refused_unless_allowed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    outside = write(part(0), tmp_path / "a.shard", two_level=True)
    with pytest.raises(UnsupportedError, match="is outside of the folder of the merged shard"):
        merge([outside], tmp_path / "in" / "all.shard")
    assert list((tmp_path / "in").iterdir()) == []
    merge([outside], tmp_path / "in" / "all.shard", allowed_locations=[str(tmp_path)])
    with pytest.raises(UnsupportedError, match="absolute urls are followed only into folders that the caller"):
        read_table(tmp_path / "in" / "all.shard")
    assert ShardFile(tmp_path / "in" / "all.shard", allowed_locations=[str(tmp_path)]).read().equals(part(0))
    assert read_table(tmp_path / "in" / "all.shard", allowed_locations=[str(tmp_path)]).equals(part(0))


def test_deleted_rows_stay_deleted(tmp_path: Path) -> None:
    marks = pa.field("gone", pa.bool_(), metadata={INTERNAL_KIND_KEY: InternalKind.DELETED_RECORD.encode()})
    table = pa.table(
        [pa.array(range(9)), pa.array([i % 2 == 0 for i in range(9)])], pa.schema([("x", pa.int64()), marks])
    )
    paths = [write(table, tmp_path / name, stripe_rows=4) for name in ("a.shard", "b.shard")]
    merge(paths, tmp_path / "all.shard")
    shard = ShardFile(tmp_path / "all.shard")
    assert shard.metadata.directory.deleted_record_count == 10
    assert shard.read().to_pydict() == {"x": [1, 3, 5, 7] * 2}


def test_other_shards_are_refused(tmp_path: Path) -> None:
    a = write(part(0), tmp_path / "a.shard")
    others = {
        "fewer.shard": part(0).drop_columns("c"),
        "renamed.shard": part(0).rename_columns(["n", "s", "l", "d"]),
        "wider.shard": part(0).set_column(0, "n", pa.array(range(500), pa.int64())),
        "nested.shard": part(0).set_column(2, "l", pa.array([["x"]] * 500)),
    }
    for name, table in others.items():
        with pytest.raises(SchemaError, match="first shard"):
            merge([a, write(table, tmp_path / name)], tmp_path / "all.shard")
    with pytest.raises(SchemaError, match="no shards"):
        merge([], tmp_path / "all.shard")
    with pytest.raises(AlreadyExistsError, match="one of its parts"):
        merge([a], a, overwrite=True)
    merge([a], tmp_path / "all.shard")
    with pytest.raises(AlreadyExistsError):
        merge([a], tmp_path / "all.shard")
    merge([a, a], tmp_path / "all.shard", overwrite=True)
    assert read_table(tmp_path / "all.shard").num_rows == 1000


@pytest.mark.parametrize("folder", ["", "./", "../here/", "sub/"])
def test_relative_paths_in_any_spelling(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    table = part(0)
    write_table(table, f"{folder}a.shard", two_level=True, stripe_rows=200)
    assert read_table(f"{folder}a.shard").equals(table)
    merge([f"{folder}a.shard"], f"{folder}b.shard")
    assert read_table(f"{folder}b.shard").equals(table)
    pq.write_table(table, f"{folder}c.parquet")
    write_over_parquet([f"{folder}c.parquet"], f"{folder}c.shard")
    assert read_table(f"{folder}c.shard").equals(table)
    monkeypatch.chdir(tmp_path)
    assert read_table(f"here/{folder}b.shard").equals(table)


_ODD_NAMES = (
    "a b",
    "ä+&=;,~",
    "100%",
    "%41",
    "a?b",
    "a#b",
    "a\\b",
    "a\nb",
    "a\x7fb",
    "%2e%2e",
    "%2F",
    "a%5cb",
    "..b",
    ":",
)


@pytest.mark.parametrize("name", _ODD_NAMES)
def test_files_of_odd_names_are_referred_to_readably_or_not_at_all(name: str, tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, 3]})
    for inner in (name, f"{name}/deeper", f"plain/{name}"):
        source = tmp_path / f"{inner}.shard"
        source.parent.mkdir(exist_ok=True)
        write_table(rows, source, overwrite=True)
        pq.write_table(rows, source.with_suffix(".parquet"))
        writers = [
            lambda where, source=source: merge([source], where),
            lambda where, source=source: write_over_parquet([source.with_suffix(".parquet")], where),
        ]
        for number, write_to in enumerate(writers):
            made = tmp_path / f"made-{number}-{inner.replace('/', '-')}.shard"
            try:
                write_to(made)
            except UnsupportedError:
                assert name not in _ODD_NAMES[:3]
                assert not made.exists()
            else:
                assert read_table(made).equals(rows)
        made = source.with_suffix(".two")
        try:
            write_table(rows, made, two_level=True)
        except UnsupportedError:
            assert not made.exists()
        else:
            assert read_table(made).equals(rows)
