"""Commits write what they change in samples, not the samples: counts stay exact through all that happens in between."""

import datetime as dt
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import skerry
from skerry import puffin
from skerry.errors import SchemaError
from skerry.iceberg.statistics import samples
from skerry.storage import Storage
from skerry.table.statistics.file_groups import key_of
from skerry.table.statistics.pieces import chain as chains
from skerry.table.statistics.pieces import growing, known_sample
from skerry.table.statistics.row_sample import ALL_ROWS
from skerry.theta import Sample
from skerry.theta.setops import below
from torture import examples

COLUMNS = 12


def rows(start, stop, columns=COLUMNS):
    """Rows of distinct values in every column but the last."""
    keys = np.arange(start, stop, dtype=np.uint64)
    scattered = {
        f"c{k}": (keys * np.uint64(0x9E3779B97F4A7C15 + 2 * k) >> np.uint64(2)).astype(np.int64)
        for k in range(columns - 1)
    }
    return pa.table({**scattered, "low": (keys % np.uint64(7)).astype(np.int64)})


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "warehouse")


@pytest.fixture
def table(catalog):
    made = catalog.create_table("d.t", rows(0, 1).schema)
    made.append(rows(0, 20_000))
    return made


def peer(tmp_path):
    warehouse = tmp_path / "warehouse"
    return SqlCatalog("skerry", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")


def forget():
    """As another process would find it."""
    known_sample._REMEMBERED.clear()


def newest_file(table):
    state = table.refresh().handle.state
    snapshot = state.snapshot()
    return state.statistics_file(snapshot.snapshot_id)


def chain(table):
    """The number of earlier files that the newest continues."""
    file = newest_file(table)
    found = chains.chain_of(puffin.PuffinReader(file.statistics_path, storage=table.handle.state.storage))
    return len(found)


def is_exact(found, column):
    """Whether a sketch has exactly the smallest hashes of a column's values."""
    sample = Sample()
    sample.update(column.combine_chunks())
    return np.array_equal(below(sample.compact.hashes, found.sketch.theta), found.sketch.hashes)


def check(table):
    """All counts are fresh, and those of one sketch of all rows."""
    content = table.refresh().scan().to_arrow()
    statistics = table.statistics()
    for name, found in statistics.items():
        assert str(found.freshness) == "fresh", (name, str(found.freshness))
        assert is_exact(found, content[name]), (name, found)
    assert table.freshness() == {name: found.freshness for name, found in statistics.items()}


def whole_counts(table):
    """What whole samples of the same rows say: those of a table that is analyzed as a whole."""
    table.analyze(full=True)
    return {name: found.ndv for name, found in table.refresh().statistics().items()}


def counts(table):
    return {name: found.ndv for name, found in table.refresh().statistics().items()}


def test_large_pieces_stay_apart_until_there_are_many(table, monkeypatch):
    monkeypatch.setattr(growing, "_LEAST_JOINED_BYTES", 900)
    monkeypatch.setattr(growing, "_MOST_PIECES", 8)
    lengths, sizes = [], []
    for number in range(36):
        table.append(rows(20_000 + number, 20_001 + number))
        lengths.append(chain(table))
        sizes.append(newest_file(table).file_size_in_bytes)
    assert 6 < max(lengths) <= 1 + 8 + 3, "the whole sample, pieces that stay apart, and a binary counter"
    assert max(sizes[:16]) < max(sizes), "joined in the end"
    assert lengths[-1] < max(lengths)
    check(table)
    assert counts(table) == whole_counts(table)


@pytest.mark.parametrize("cold", [False, True])
def test_small_appends_write_little_and_count_exactly(table, monkeypatch, cold):
    first = newest_file(table).file_size_in_bytes
    assert first > 900_000
    for number in range(20):
        if cold:
            forget()
        table.append(rows(20_000 + number, 20_001 + number))
        assert newest_file(table).file_size_in_bytes < 8_000
        assert 1 <= chain(table) <= 6, "one whole sample, and a binary counter of pieces"
    check(table)
    assert len(table.handle.state.metadata.statistics) <= 7
    assert counts(table) == whole_counts(table)
    check(table)


MERGE_ON_READ = {f"write.{change}.mode": "merge-on-read" for change in ("delete", "update", "merge")}


def keyed(start, stop, seed=0):
    """Rows with the key `c0`; other values depend on a seed."""
    first = pa.array(np.arange(start, stop))
    return rows(start + 1000 * seed, stop + 1000 * seed).set_column(0, "c0", first)


CHANGES = {
    "delete": lambda table, key: table.delete(f"c0 = {key}"),
    "update": lambda table, key: table.update({"c1": "c1 + 1", "low": "5"}, where=f"c0 = {key}"),
    "upsert": lambda table, key: table.upsert(keyed(key, key + 1, 700), on=["c0"]),
    "merge": lambda table, key: table.merge(
        pa.concat_tables([keyed(key, key + 1, 800), keyed(key + 100_000, key + 100_001)]),
        on=["c0"],
        when_matched="update",
        when_not_matched="insert",
    ),
}


def sample_bytes(table):
    """What the newest statistics file has beside sketches."""
    file = newest_file(table)
    properties = puffin.PuffinReader(file.statistics_path, storage=table.handle.state.storage).properties
    return sum(int(text) for name, text in properties.items() if name.endswith(".length"))


@pytest.mark.parametrize(("version", "properties", "most"), [(2, {}, 150_000), (3, MERGE_ON_READ, 12_000)])
def test_changes_of_a_row_write_little_and_count_exactly(catalog, monkeypatch, version, properties, most):
    table = catalog.create_table("d.k", rows(0, 1).schema, format_version=version, properties=properties)
    for start in range(0, 20_000, 5_000):
        table.append(keyed(start, start + 5_000))
    table.analyze(full=True)
    for number, change in enumerate([*CHANGES.values()] * 2):
        if number % 3 == 2:
            forget()
        change(table, 17 + 1_700 * number)
        assert sample_bytes(table) < most
        assert 1 <= chain(table) <= 6
        table.append(keyed(50_000 + number, 50_001 + number))
    check(table)
    assert_rows_sampled(table)
    assert counts(table) == whole_counts(table)
    assert len(table.handle.state.metadata.statistics) <= 8


def assert_rows_sampled(table):
    """The sampled rows are all alive, at their places, and as many as the threshold says."""
    state = table.refresh().handle.state
    found, _ = samples.read_rows(state, state.snapshot())
    alive = table.scan(columns=["_file", "_pos", "c1"]).to_arrow()
    at = {
        (key_of(file), pos): value
        for file, pos, value in zip(*(alive[name].to_pylist() for name in alive.column_names), strict=True)
    }
    sampled = zip(found.files.tolist(), found.positions.tolist(), found.values["2"].to_pylist(), strict=True)
    assert all(at[file, position] == value for file, position, value in sampled)
    expected = alive.num_rows * found.theta / ALL_ROWS
    assert abs(len(found) - expected) < 6 * max(expected, 1) ** 0.5


def test_rewritten_partitions_and_dropped_files_write_little(catalog):
    table = catalog.create_table("d.p", rows(0, 1).schema, partition_by=["low"])
    for start in range(0, 20_000, 5_000):
        table.append(rows(start, start + 5_000))
    table.analyze()
    whole = sample_bytes(table)
    table.compact(where="low = 3", full=True)
    assert chain(table) == 1
    assert sample_bytes(table) < whole / 8, "sampled rows alone are new"
    table.delete("low = 4")
    assert chain(table) == 2
    assert sample_bytes(table) < 3_000
    check(table)
    assert counts(table) == whole_counts(table)


def test_a_deleted_half_is_written_whole(table):
    table.delete("low < 4")
    assert chain(table) == 0
    check(table)


@pytest.mark.parametrize("key", ["samples.offset", "samples.schema-id", "samples.last-column-id"])
def test_samples_with_an_endless_number_are_lost(table, monkeypatch, key):
    file = newest_file(table)
    reader = puffin.PuffinReader(file.statistics_path, storage=table.handle.state.storage)
    name = reader.properties["skerry.samples.snapshot-id"]
    reader.properties[f"skerry.{key}"] = "9" * 5000  # which Python refuses to convert
    assert chains.pieces_of({name: reader}.get, name) is None


def test_pieces_that_version_0_2_0_wrote_are_read():
    folder = Path(__file__).parent / "data" / "pieces-of-0.2.0"
    files = [puffin.PuffinReader(path) for path in sorted(folder.iterdir())]
    by_snapshot = {file.properties["skerry.samples.snapshot-id"]: file for file in files}
    newest = max(
        by_snapshot, key=lambda number: len(by_snapshot[number].properties.get("skerry.added-samples.chain", ""))
    )
    assert len(chains.chain_of(by_snapshot[newest])) == 2
    found = chains.pieces_of(by_snapshot.get, newest).groups()
    values = pa.table(
        {"k": np.arange(310), "p": np.arange(310) % 7, "s": [f"s{number % 100}" for number in range(310)]}
    )
    for number, name in enumerate(values.column_names, 1):
        sample = Sample().update(values[name].combine_chunks())
        assert np.array_equal(found.columns[number].union().hashes, sample.hashes)
    assert sorted(found.rows.values["1"].to_pylist()) == list(range(310))
    assert chains.rows_of(by_snapshot.get, newest)[0].values.num_rows == 310


def test_other_engines_find_an_honest_older_entry(table, tmp_path):
    sketched = table.current_snapshot().snapshot_id
    table.append(rows(20_000, 20_001))
    metadata = peer(tmp_path).load_table("d.t").metadata
    by_snapshot = {file.snapshot_id: file for file in metadata.statistics}
    assert by_snapshot[metadata.current_snapshot_id].blob_metadata == []
    older = by_snapshot[sketched].blob_metadata
    assert len(older) == COLUMNS
    assert {blob.snapshot_id for blob in older} == {sketched}
    table.append(rows(20_001, 20_500))
    metadata = peer(tmp_path).load_table("d.t").metadata
    newest = next(file for file in metadata.statistics if file.snapshot_id == metadata.current_snapshot_id)
    assert len(newest.blob_metadata) == COLUMNS, "counts have moved by more than 2 %"
    assert {blob.snapshot_id for blob in newest.blob_metadata} == {metadata.current_snapshot_id}


def test_eight_columns_are_complete_in_every_commit(catalog):
    table = catalog.create_table("d.t", rows(0, 1, 8).schema)
    table.append(rows(0, 20_000, 8))
    for number in range(3):
        table.append(rows(20_000 + number, 20_001 + number, 8))
        file = newest_file(table)
        assert len(file.blob_metadata) == 8
        assert file.file_size_in_bytes < 300_000
    assert len(table.handle.state.metadata.statistics) <= 4


def test_a_property_asks_for_complete_sketches(catalog, table):
    table.set_properties({"skerry.statistics.complete-sketches": "true"})
    table.append(rows(20_000, 20_001))
    assert len(newest_file(table).blob_metadata) == COLUMNS
    with pytest.raises(SchemaError, match="complete-sketches must be true or false, found 'maybe'"):
        table.set_properties({"skerry.statistics.complete-sketches": "maybe"})


def test_maintenance_publishes_all_sketches(table):
    table.append(rows(20_000, 20_001))
    assert newest_file(table).blob_metadata == ()
    table.analyze()
    assert len(newest_file(table).blob_metadata) == COLUMNS
    table.append(rows(20_001, 20_002))
    table.compact(full=True)
    assert len(newest_file(table).blob_metadata) == COLUMNS
    # the hashes of one group are those of the groups before; rows are sampled again, by chance with a higher threshold
    assert chain(table) <= 1
    check(table)


def test_a_warm_append_reads_no_statistics_and_lists_nothing(table, monkeypatch):
    table.append(rows(20_000, 20_001))
    touched = []
    for name in ("read", "read_range", "read_ranges", "read_tail", "list", "exists"):
        real = getattr(Storage, name)

        def counting(self, location, *arguments, _real=real, _name=name, **options):
            touched.append((_name, location.rsplit("/", 1)[-1]))
            return _real(self, location, *arguments, **options)

        monkeypatch.setattr(Storage, name, counting)
    table.append(rows(20_001, 20_002))
    assert not [where for where in touched if where[1].endswith(".stats")]
    assert not [where for where in touched if where[0] in ("list", "exists")]
    assert len(touched) <= 4, touched


@pytest.mark.parametrize(
    "change", [lambda table: table.delete("c0 < 3"), lambda table: table.append(keyed(70_000, 70_001))]
)
def test_a_lower_maximum_of_groups_holds_for_what_is_written_next(catalog, change):
    table = catalog.create_table("d.g", rows(0, 1).schema, format_version=3, properties=MERGE_ON_READ)
    for start in range(0, 20_000, 2_500):
        table.append(keyed(start, start + 2_500))
    table.append(keyed(50_000, 50_001))
    assert chain(table) > 0
    table.set_properties({"skerry.statistics.max-groups": "3"})
    forget()
    change(table)
    check(table)
    forget()
    check(table)


def test_a_reader_beside_a_writer_joins_samples_once(table, monkeypatch):
    table.append(rows(20_000, 20_500))
    real = known_sample.SamplePiece.then

    def read_meanwhile(self, later):
        for kept, _ in [*known_sample._REMEMBERED._values.values()]:
            kept.sample.groups()
        return real(self, later)

    monkeypatch.setattr(known_sample.SamplePiece, "then", read_meanwhile)
    table.append(rows(20_500, 20_501))
    monkeypatch.undo()
    warm = sampled_rows(table)
    forget()
    assert warm == sampled_rows(table)


def sampled_rows(table):
    state = table.refresh().handle.state
    found = samples.read_sample(state, state.snapshot()).groups.rows
    return [*zip(found.files.tolist(), found.positions.tolist(), strict=True)]


def test_expiry_of_what_samples_continue_writes_them_whole(table):
    for number in range(5):
        table.append(rows(20_000 + number, 20_001 + number))
    assert chain(table) > 0
    soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=1)
    table.expire_snapshots(keep_last=1, older_than=soon)
    assert chain(table) == 0
    assert len(newest_file(table).blob_metadata) == COLUMNS
    check(table)
    table.append(rows(20_005, 20_006))
    assert chain(table) == 1
    table.remove_orphans(older_than=soon)
    check(table)


def test_expiry_that_keeps_the_whole_sample_leaves_the_chain(table):
    table.append(rows(20_000, 20_001))
    before = newest_file(table).statistics_path
    table.expire_snapshots(keep_last=5, older_than=dt.datetime.now(dt.UTC))
    assert newest_file(table).statistics_path == before


def test_a_lost_piece_costs_counts_until_analyze_and_is_never_called_fresh(table, monkeypatch):
    for number in range(3):
        table.append(rows(20_000 + number, 20_001 + number))
    first = table.refresh().handle.state.metadata.statistics[0]
    Path(first.statistics_path.removeprefix("file://")).unlink()
    forget()
    assert not {str(found) for found in table.refresh().freshness().values()} & {"fresh"}
    table.append(rows(20_003, 20_004))
    assert not {str(found) for found in table.refresh().freshness().values()} & {"fresh"}
    table.analyze()
    check(table)


def test_another_statistics_file_for_a_continued_snapshot_breaks_the_chain(table, tmp_path, monkeypatch):
    whole = newest_file(table)
    table.append(rows(20_000, 20_001))
    other = peer(tmp_path).load_table("d.t")
    entry = next(file for file in other.metadata.statistics if file.snapshot_id == whole.snapshot_id)
    path = tmp_path / "other.stats"
    puffin.PuffinWriter().write(str(path))
    size = path.stat().st_size
    with other.update_statistics() as update:
        update.set_statistics(
            entry.model_copy(
                update={"statistics_path": f"file://{path}", "file_size_in_bytes": size, "blob_metadata": []}
            )
        )
    assert not {str(found) for found in table.refresh().freshness().values()} & {"fresh"}
    table.append(rows(20_001, 20_002))
    assert not {str(found) for found in table.refresh().freshness().values()} & {"fresh"}, (
        "not even by what is remembered"
    )
    table.analyze()
    check(table)


def test_analyze_of_a_snapshot_that_others_continue_changes_nothing(table):
    state = table.handle.state
    snapshot = state.snapshot()
    table.append(rows(20_000, 20_001))
    location = table.refresh().metadata_location
    table.handle.publish_sketches(
        snapshot.snapshot_id, {}, skerry.iceberg.statistics.samples.sample_of(state, snapshot)
    )
    assert table.refresh().metadata_location == location
    check(table)


def test_relocated_samples_are_whole_and_fresh(catalog, table, tmp_path):
    for number in range(3):
        table.append(rows(20_000 + number, 20_001 + number))
    expected = counts(table)
    (tmp_path / "warehouse").rename(tmp_path / "elsewhere")
    moved = skerry.connect(tmp_path / "elsewhere")
    moved.relocate()
    found = moved.load_table("d.t")
    assert chain(found) == 0
    assert counts(found) == expected
    check(found)
    found.append(rows(30_000, 30_001))
    check(found)


def test_columns_without_a_blob_are_joinable_all_the_same(catalog, table):
    table.append(rows(20_000, 20_001))
    assert newest_file(table).blob_metadata == ()
    other = catalog.create_table("d.u", rows(0, 1, 2).schema)
    other.append(rows(0, 10_000, 2))
    found = catalog.joinable("d.u", "c0")
    assert any((one.table, one.column) == ("d.t", "c0") for one in found)


class History:
    """Random changes of a table; `is_fresh` says what its counts must be afterwards, None if either may be."""

    def __init__(self, table, tmp_path, seed):
        self.table, self.tmp_path, self.chance = table, tmp_path, random.Random(seed)
        self.at = 30_000
        self.is_fresh = True

    def step(self, number):
        kinds = [self.delete, self.foreign, self.branch, self.move, self.pick, self.expire, self.column, self.large]
        kind = self.chance.choice([self.append] * 6 + kinds)
        kind(number)
        self.at += 2_000
        return kind.__name__

    def new(self, count=1):
        self.at += count
        return rows(self.at - count, self.at)

    def append(self, number):
        self.table.append(self.new())

    def large(self, number):
        self.table.append(self.new(2_000))

    def delete(self, number):
        if self.chance.random() < 0.2:
            self.table.delete(f"low = {self.chance.randrange(7)}")
        else:
            self.table.delete(f"c1 = {rows(self.at - 2_001, self.at)['c1'][0]}")

    def foreign(self, number):
        peer(self.tmp_path).load_table("d.t").append(self.new())
        self.table.refresh()
        self.table.append(self.new())
        self.is_fresh = False

    def branch(self, number):
        name = f"b{number}"
        self.table.create_branch(name)
        self.table.append(self.new(), ref=name)
        self.table.append(self.new(), ref=name)
        if self.chance.random() < 0.5:
            self.table.fast_forward("main", name)
        self.table.drop_ref(name)

    def move(self, number):
        line = [found.snapshot_id for found in self.table.refresh().snapshots()]
        self.table.set_current_snapshot(self.chance.choice(line[-4:]))
        self.is_fresh = None

    def pick(self, number):
        staged = self.table.append(self.new(), staged=True).snapshot_id
        self.table.append(self.new())
        self.table.cherry_pick(staged)

    def expire(self, number):
        self.table.expire_snapshots(keep_last=self.chance.choice([1, 3]), older_than=dt.datetime.now(dt.UTC))

    def column(self, number):
        if number < 8:
            with self.table.update_schema() as update:
                update.add_column(f"new{number}", "long")


@pytest.mark.parametrize("seed", range(examples(2)))
def test_random_histories_count_what_is_there(table, tmp_path, monkeypatch, seed):
    """Appends between deletes, foreign commits, branches, rollbacks, picks, expiry, schema changes and analyses."""
    history = History(table, tmp_path, seed)
    for number in range(16):
        if history.chance.random() < 0.3:
            forget()
        kind = history.step(number)
        content = table.refresh().scan().to_arrow()
        for name, found in table.statistics().items():
            if found.freshness.is_fresh:
                assert is_exact(found, content[name]), (seed, number, kind, name, found)
            else:
                assert history.is_fresh is not True, (seed, number, kind, name, str(found.freshness))
        if not history.is_fresh:
            table.analyze()
            history.is_fresh = True
            check(table)
