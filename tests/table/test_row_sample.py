"""Samples of rows: chosen at random, merged, followed through removed files and deleted rows, encoded and decoded."""

import contextlib
import datetime
import decimal
import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import torture

import skerry
from skerry.errors import FormatError, SchemaError
from skerry.puffin import PuffinReader
from skerry.table.rows.schema import leaves
from skerry.table.statistics.file_groups import FileGroup, SketchedFile, ThinnedGroup, deletes_key, key_of
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.puffin_regions import read_rows
from skerry.table.statistics.row_sample import (
    ALL_ROWS,
    RowSample,
    decode_row_sample,
    encode_row_sample,
    most_rows,
    united,
)
from skerry.table.statistics.row_sampling import RowSampler, file_limit

SCHEMA = pa.schema(
    [
        pa.field("n", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("t", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
)
COLUMNS = leaves(SCHEMA)


def rows(start, stop):
    numbers = np.arange(start, stop)
    return pa.record_batch([pa.array(numbers), pa.array([f"v{number}" for number in numbers])], schema=SCHEMA)


def sample_of(*batches):
    sampler = RowSampler(COLUMNS)
    for batch in batches:
        sampler.update(batch)
    return sampler.finish()


def sketched(name, start, stop):
    return SketchedFile(name, "", stop - start, {}, rows=sample_of(rows(start, stop)))


def numbers(sample):
    return sample.values.column("1").to_pylist() if len(sample) else []


def test_a_sample_is_of_the_rows_and_knows_where_they_are():
    sample = sample_of(*(rows(at, at + 1000) for at in range(0, 100_000, 1000)))
    assert len(sample) == most_rows(2) == file_limit(2, 100_000) == 4096
    assert sample.positions.tolist() == numbers(sample)  # the values are the positions here
    assert sample.values.column("2").to_pylist() == [f"v{number}" for number in numbers(sample)]
    assert np.all(np.diff(sample.priorities.astype(np.int64)) >= 0)
    assert int(sample.priorities.max()) < sample.theta < ALL_ROWS
    assert abs(sample.theta / ALL_ROWS - 0.04096) < 0.004
    assert abs(np.mean(numbers(sample)) / 50_000 - 1) < 0.06  # six standard deviations


def test_few_rows_are_all_there_and_of_more_a_share():
    assert sorted(numbers(sample_of(rows(0, 2000)))) == list(range(2000))
    assert len(sample_of(rows(0, 20_000))) == file_limit(2, 20_000) == 2048


def test_long_texts_and_other_types_are_left_out():
    schema = pa.schema(
        pa.field(name, type_, metadata={"PARQUET:field_id": str(number)})
        for number, (name, type_) in enumerate(
            {
                "long": pa.string(),
                "bytes": pa.binary(),
                "day": pa.date32(),
                "money": pa.decimal128(9, 2),
                "nested": pa.struct([pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "9"})]),
            }.items()
        )
    )
    day, money = datetime.date(2026, 1, 1), decimal.Decimal("1.50")
    batch = pa.record_batch([["x" * 100] * 50, [b"x"] * 50, [day] * 50, [money] * 50, [{"a": 1}] * 50], schema=schema)
    sampler = RowSampler(leaves(schema))
    sampler.update(batch)
    sample = sampler.finish()
    assert sample.values.column_names == ["2", "3"]
    assert sample.table(leaves(schema)).to_pylist()[0] == {"day": day, "money": money}


def test_merged_in_any_way_a_sample_is_the_same():
    parts = [sample_of(rows(at, at + 30_000)).of_file(key_of(str(at))) for at in range(0, 120_000, 30_000)]
    whole = united(parts)
    again = united([united(parts[2:]), united([parts[1], parts[0]])])
    assert (whole.theta, numbers(whole), whole.files.tolist()) == (again.theta, numbers(again), again.files.tolist())
    assert len(whole) == most_rows(2)
    for part in parts:  # what is below the threshold is there, and nothing else
        mine = whole.only_files(part.files[:1].tolist().__contains__)
        assert numbers(mine) == numbers(part.below(whole.theta))


def test_columns_that_not_all_parts_have_are_dropped_and_types_follow():
    first, second = sample_of(rows(0, 10)), sample_of(rows(10, 20)).with_columns([1])
    assert united([first, second]).values.column_names == ["1"]
    values = pa.table({"1": pa.array([1, 2], pa.int32())})
    narrow = RowSample(ALL_ROWS, np.arange(2, dtype=np.uint32), np.zeros(2, np.uint64), np.arange(2), values)
    assert united([narrow, second]).values.schema.field("1").type == pa.int64()
    changed = first.with_column(7, pa.scalar(None, pa.int8())).with_column(8, pa.scalar("d"))
    assert changed.values.column("7").null_count == 10
    assert changed.values.column("8").to_pylist() == ["d"] * 10


@settings(max_examples=torture.examples(15))
@given(st.lists(st.sampled_from(["add", "drop", "delete", "blur", "rewrite"]), min_size=1, max_size=12), st.randoms())
def test_random_changes_beside_plain_rows(steps, random):
    """A sample after any changes has only live rows, and those of unblurred files that are below the threshold."""
    groups, live, blurred, count, unique = GroupSamples(), {}, set(), 0, itertools.count()
    for step in steps:
        name = random.choice(sorted(live)) if live else None
        if step == "add" or name is None:
            live[f"f{count}"] = set(range(count * 10_000, count * 10_000 + random.randint(1, 3000)))
            groups = groups.with_files(
                [sketched(f"f{count}", min(live[f"f{count}"]), max(live[f"f{count}"]) + 1)], max_groups=3
            )
            count += 1
        elif step == "drop":
            del live[name]
            blurred.discard(name)
            groups = groups.without_files([name])
        elif step == "delete":
            base = 10_000 * int(name[1:])
            gone = {row for row in live[name] if random.random() < 0.3}
            live[name] -= gone
            group = next(group for group in groups.groups if key_of(name) in group.files)
            positions = np.array(sorted(row - base for row in gone), np.int64)
            now = {key_of(name): group.files[key_of(name)] ^ deletes_key([str(next(unique))])}
            thin = ThinnedGroup(group.files, now, group.row_count - len(gone), {}, {key_of(name): positions})
            if group.exact:
                groups = groups.with_thinned([thin])
            else:
                blurred.add(name)
                groups = groups.with_deletes(now)
        elif step == "blur":
            blurred.add(name)
            groups = groups.with_deletes({key_of(name): deletes_key([str(next(unique))])})
        else:
            live[f"f{count}"] = set(range(count * 10_000, count * 10_000 + (len(live.pop(name)) or 1)))
            new = sketched(f"f{count}", min(live[f"f{count}"]), max(live[f"f{count}"]) + 1)
            blurred.discard(name)
            groups = groups.with_files_rewritten([name], [new], max_groups=3)
            count += 1
        found = groups.rows
        assert found.blurred == {key_of(one) for one in blurred}
        keys = {key_of(one): one for one in live}
        for key, number, position in zip(found.files.tolist(), numbers(found), found.positions.tolist(), strict=True):
            assert number % 10_000 == position
            assert keys[key] in blurred or number in live[keys[key]]
        if found.theta == ALL_ROWS:
            assert set(numbers(found)) >= set().union(*(live[one] for one in live.keys() - blurred))


def test_unsampled_files_and_unknown_positions_are_blurred():
    groups = GroupSamples().with_files([sketched("a", 0, 100)])
    assert groups.rows.blurred == frozenset()
    other = SketchedFile("b", "", 50, {})
    assert groups.with_files([other]).rows.blurred == {key_of("b")}
    assert GroupSamples().with_files([other]).rows is None
    assert GroupSamples((FileGroup({1: 0}, frozenset(), 5),), {}, None).with_files([sketched("a", 0, 9)]).rows is None
    sampler = RowSampler(COLUMNS, has_positions=False)
    sampler.update(rows(0, 10))
    unplaced = sampler.finish().of_file(7)
    assert unplaced.without_rows({7: np.array([3])}).blurred == {7}
    assert groups.with_rows_gone(None, 5).rows.blurred == {key_of("a")}


def test_encoding_and_damage():
    sample = united([sample_of(rows(0, 5000)).of_file(1), sample_of(rows(5000, 6000)).of_file(2)]).with_blurred([2])
    data = encode_row_sample(sample)
    assert len(pickle.dumps(sample)) < len(data) + 200
    for again in (decode_row_sample(data), pickle.loads(pickle.dumps(sample))):
        assert (again.theta, again.blurred) == (sample.theta, sample.blurred)
        assert again.values.equals(sample.values)
        for name in ("priorities", "files", "positions"):
            assert np.array_equal(getattr(again, name), getattr(sample, name))
    assert len(decode_row_sample(encode_row_sample(RowSample()))) == 0
    for size in (0, 10, len(data) - 1):
        with pytest.raises(FormatError, match=r"samples\.md § 4"):
            decode_row_sample(data[:size])
    for at in range(0, len(data), max(len(data) // 50, 1)):
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        with contextlib.suppress(FormatError):  # the checksum around it is not looked at here
            decode_row_sample(bytes(damaged))


@pytest.mark.parametrize("format_", ["iceberg", "paimon"])
def test_tables_keep_samples_unless_told_not_to(tmp_path, format_):
    catalog = skerry.connect(str(tmp_path))
    data = pa.Table.from_batches([rows(0, 300)])
    for name, properties in (("d.with", {}), ("d.without", {"skerry.statistics.row-sample": "false"})):
        table = catalog.create_table(name, SCHEMA, format=format_, properties=properties)
        table.append(data)
        table.append(data)
    files = {name: sampled_rows(tmp_path, name) for name in ("with", "without")}
    assert files["without"] == set()
    assert files["with"] == set(range(300))
    with pytest.raises(SchemaError, match="must be true or false"):
        catalog.create_table(
            "d.bad", SCHEMA, format=format_, properties={"skerry.statistics.row-sample": "maybe"}
        ).append(data)


def sampled_rows(folder, name):
    """The numbers in the samples of all statistics files of a table."""
    paths = [path for path in folder.rglob("*.stats") if name in path.parts]
    assert paths
    found = [read_rows(PuffinReader(str(path))) or RowSample() for path in paths]
    return {value for sample in found for column in sample.values.columns[:1] for value in column.to_pylist()}
