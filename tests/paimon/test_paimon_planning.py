"""Planning: no wanted row is lost by any step, and metadata that contradicts itself is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_tables import STORAGE, MadeTable, plan, planned_names

from skerry.errors import FormatError, NotFoundError, SkerryError, UnsupportedError
from skerry.paimon.evolution.schema_evolution import ChangeSchema, commit_schema
from skerry.paimon.file_index import encode_container
from skerry.paimon.file_index.bloom import BloomFilterBuilder
from skerry.paimon.manifests.index_manifest import DELETION_VECTORS, HASH, DeletionVectorMeta, IndexManifestEntry
from skerry.paimon.manifests.manifest import FileKind, ManifestEntry, batch_of
from skerry.paimon.metadata.buckets import assign_buckets
from skerry.paimon.metadata.options import BucketFunction
from skerry.paimon.planning.entry_columns import live_rows
from skerry.paimon.planning.plan import ScanPlanner
from skerry.paimon.planning.sections import KeyRanges, Sections, overlapping_sections, sorted_runs
from skerry.paimon.planning.splits import Split, VectorLocation
from skerry.paimon.reading.fallback_scan import scan
from skerry.paimon.table import PaimonTable
from skerry.paimon.values.types import decode_type
from torture import examples

COLUMNS = pa.schema(
    [
        pa.field("dt", pa.string(), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("v", pa.int32()),
        pa.field("s", pa.string()),
    ]
)
_folders = itertools.count()


def made(**options: Any) -> MadeTable:
    """A new table in memory."""
    return MadeTable(f"memory://planning/{next(_folders)}", **{"columns": COLUMNS, **options})


def row(k: int, v: int | None = None, s: str | None = None, dt: str = "a") -> dict[str, Any]:
    return {"dt": dt, "k": k, "v": v, "s": s}


# Rows that are lost to nothing --------------------------------------------------------------------------------------

CONDITIONS: list[tuple[str, Callable[[dict[str, Any]], bool]]] = [
    ("v = 3", lambda r: r["v"] == 3),
    ("v > 5", lambda r: r["v"] is not None and r["v"] > 5),
    ("v is null", lambda r: r["v"] is None),
    ("v is not null", lambda r: r["v"] is not None),
    ("k = 4", lambda r: r["k"] == 4),
    ("k in (1, 8)", lambda r: r["k"] in (1, 8)),
    ("k >= 5 and v < 4", lambda r: r["k"] >= 5 and r["v"] is not None and r["v"] < 4),
    ("k = 2 or v = 7", lambda r: r["k"] == 2 or r["v"] == 7),
    ("dt = 'b'", lambda r: r["dt"] == "b"),
    ("dt > 'a' and k < 5", lambda r: r["dt"] > "a" and r["k"] < 5),
    ("s like 'x%'", lambda r: r["s"] is not None and r["s"].startswith("x")),
    ("dt = 'c' and s = 'x'", lambda r: r["dt"] == "c" and r["s"] == "x"),
]
ROWS = st.builds(
    row,
    st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.none() | st.sampled_from(["", "x", "xy", "y"]),
    st.sampled_from(["a", "b", "c"]),
)
STATS = st.none() | st.lists(st.sampled_from(["dt", "k", "v", "s"]), unique=True)


def _by_partition(rows: Sequence[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    for dt in sorted({one["dt"] for one in rows}):
        yield [one for one in rows if one["dt"] == dt]


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.lists(ROWS, min_size=1, max_size=4), STATS), min_size=1, max_size=6),
    st.sampled_from(CONDITIONS),
    st.data(),
)
def test_append_tables_lose_no_wanted_row(
    files: list[tuple[list[dict[str, Any]], list[str] | None]], condition: tuple[str, Any], data: st.DataObject
) -> None:
    where, is_wanted = condition
    table = made(partition_by=["dt"])
    content: dict[str, list[dict[str, Any]]] = {}
    entries: list[ManifestEntry] = []
    for rows, stats in files:
        for part in _by_partition(rows):
            entry = table.entry(part, total=-1, stats=stats)
            content[entry.file.file_name] = part
            entries.append(entry)
    gone = data.draw(st.lists(st.sampled_from(entries), unique_by=id, max_size=2))
    deletes = [[replace(entry, kind=FileKind.DELETE) for entry in gone]] if gone else []
    cut = data.draw(st.integers(0, len(entries)))
    manifests = [part for part in (entries[:cut], entries[cut:]) if part]
    state = table.publish(manifests, deletes)
    live = {name: rows for name, rows in content.items() if name not in {entry.file.file_name for entry in gone}}
    found = plan(state, where)
    kept = set(planned_names(found))
    assert kept <= set(live)
    assert {name for name, rows in live.items() if any(map(is_wanted, rows))} <= kept
    for split in found.splits:
        assert split.is_raw
        for file in split.files:
            if file.matches_all:
                assert all(map(is_wanted, live[file.location.rpartition("/")[2]]))
    assert len(found.tasks) == found.steps[-1].kept == len(kept)


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.lists(ROWS, min_size=1, max_size=6), STATS), min_size=1, max_size=6),
    st.sampled_from(CONDITIONS),
    st.sampled_from(["deduplicate", "partial-update"]),
    st.integers(1, 3),
)
def test_primary_key_tables_lose_no_wanted_row(
    commits: list[tuple[list[dict[str, Any]], list[str] | None]], condition: tuple[str, Any], engine: str, buckets: int
) -> None:
    where, is_wanted = condition
    table = made(
        partition_by=["dt"], primary_key=["dt", "k"], properties={"bucket": str(buckets), "merge-engine": engine}
    )
    content: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    manifests = []
    for number, (rows, stats) in enumerate(commits):
        entries = []
        newest = {(one["dt"], one["k"]): one for one in rows}
        by_place: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for one in sorted(newest.values(), key=lambda one: one["k"]):
            by_place.setdefault((one["dt"], _bucket(one["k"], buckets)), []).append(one)
        for (_, bucket), part in by_place.items():
            entry = table.entry(part, bucket=bucket, stats=stats)
            content[entry.file.file_name] = [(number, one) for one in part]
            entries.append(entry)
        manifests.append(entries)
    state = table.publish(manifests[:-1], manifests[-1:])
    merged = _merge(itertools.chain.from_iterable(content.values()), engine)
    expected = [one for one in merged if is_wanted(one)]
    found: list[dict[str, Any]] = []
    for split in plan(state, where).splits:
        for section in split.sections:
            files = [content[file.location.rpartition("/")[2]] for file in section.files]
            rows = [one for _, one in files[0]] if section.is_raw else _merge(itertools.chain(*files), engine)
            assert not section.is_raw or len(files) == 1
            if all(file.matches_all for file in section.files):
                assert all(map(is_wanted, rows))
            found += filter(is_wanted, rows)
    order = lambda one: (one["dt"], one["k"])  # noqa: E731
    assert sorted(found, key=order) == sorted(expected, key=order)


def _bucket(key: int, buckets: int) -> int:
    column = pa.array([key], pa.int32())
    return int(assign_buckets(BucketFunction.DEFAULT, [decode_type("INT")], [column], buckets)[0])


def _merge(records: Iterator[tuple[int, dict[str, Any]]], engine: str) -> list[dict[str, Any]]:
    """Rows by key: the newest record, or the newest value of every column."""
    merged: dict[Any, dict[str, Any]] = {}
    for _, one in sorted(records, key=lambda record: record[0]):
        key = (one["dt"], one["k"])
        if engine == "partial-update" and key in merged:
            merged[key] = {name: merged[key][name] if value is None else value for name, value in one.items()}
        else:
            merged[key] = one
    return list(merged.values())


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 12), st.integers(0, 4), st.booleans()), min_size=0, max_size=12
    )
)
def test_sections_do_not_overlap_and_runs_follow_each_other(files: list[tuple[int, int, int, bool]]) -> None:
    buckets = np.array([bucket for bucket, *_ in files], np.int64)
    lowest = np.array([low for _, low, *_ in files], np.int64)
    ranges = KeyRanges(lowest, lowest + np.array([size for *_, size, _ in files], np.int64))
    deletes = np.array([flag for *_, flag in files], bool)
    sections = overlapping_sections(buckets, ranges, deletes)
    assert sorted(sections.rows.tolist()) == list(range(len(files)))
    before = (-1, -1)
    for number in range(len(sections)):
        rows = sections.rows[sections.starts[number] : sections.starts[number + 1]].tolist()
        assert len({int(buckets[one]) for one in rows}) == 1
        least = min(int(ranges.lowest[one]) for one in rows)
        most = max(int(ranges.highest[one]) for one in rows)
        bucket = int(buckets[rows[0]])
        assert bucket > before[0] or least > before[1]
        before = (bucket, most)
        runs = sorted_runs(rows, ranges)
        assert sorted(itertools.chain(*runs)) == sorted(rows)
        for run in runs:
            assert all(ranges.highest[one] < ranges.lowest[other] for one, other in itertools.pairwise(run))
        depth = max(
            sum(ranges.lowest[one] <= place <= ranges.highest[one] for one in rows) for place in range(least, most + 1)
        )
        assert len(runs) == depth  # as few as can be
        assert bool(sections.is_raw[number]) == (len(rows) == 1 and not deletes[rows[0]])


# Steps one by one ---------------------------------------------------------------------------------------------------


def _steps(found: Any) -> dict[str, tuple[int, int]]:
    return {step.name: (step.total, step.kept) for step in found.steps}


def test_manifests_of_other_partitions_are_not_read() -> None:
    table = made(partition_by=["dt"])
    parts = [[table.entry([row(1, dt=dt), row(2, dt=dt)], total=-1)] for dt in "abc"]
    state = table.publish(parts[:2], parts[2:])
    before = STORAGE.metrics.counts()
    found = plan(state, "dt = 'b'")
    assert _steps(found)["manifests by partition"] == (3, 1)
    assert STORAGE.metrics.counts().requests - before.requests == 3  # two lists and one manifest
    assert planned_names(found) == [parts[1][0].file.file_name]
    assert _steps(plan(state))["manifests by partition"] == (3, 3)


def test_conditions_on_the_bucket_key_leave_its_buckets() -> None:
    table = made(primary_key=["k"], properties={"bucket": "4"})
    entries = [table.entry([row(k)], bucket=_bucket(k, 4)) for k in range(40)]
    state = table.publish([entries])
    for where, keys in (("k = 7", [7]), ("k in (3, 9) and v is null", [3, 9])):
        steps = _steps(plan(state, where))
        wanted = {_bucket(key, 4) for key in keys}
        assert steps["files by bucket"] == (40, sum(_bucket(k, 4) in wanted for k in range(40)))
        assert steps["files by bounds"][1] == len(keys)
    assert "files by bucket" not in _steps(plan(state, "k > 7"))


def test_buckets_are_found_by_the_number_that_there_was_when_files_were_written() -> None:
    table = made(partition_by=["dt"], primary_key=["dt", "k"], properties={"bucket": "4"})
    old = [table.entry([row(k, dt="a")], bucket=_bucket(k, 2), total=2) for k in range(9)]
    new = [table.entry([row(k, dt="b")], bucket=_bucket(k, 4), total=4) for k in range(9)]
    found = plan(table.publish([old], [new]), "k = 5")
    assert planned_names(found) == sorted([old[5].file.file_name, new[5].file.file_name])
    assert {split.total_buckets for split in found.splits} == {2, 4}


def test_files_of_waiting_and_hidden_levels_are_invisible() -> None:
    table = made(primary_key=["k"], properties={"bucket": "-2"})
    waiting = [table.entry([row(1)], bucket=-2, file_name="data-u-0.avro")]
    assert planned_names(plan(table.publish([waiting]))) == []
    for properties in ({"merge-engine": "first-row"}, {"deletion-vectors.enabled": "true"}):
        table = made(primary_key=["k"], properties={"bucket": "1", **properties})
        fresh, compacted = table.entry([row(1), row(5)]), table.entry([row(2), row(9)], level=5)
        found = plan(table.publish([[fresh, compacted]]))
        assert planned_names(found) == [compacted.file.file_name]
        assert _steps(found)["files by level"] == (2, 1)
        assert all(split.is_raw for split in found.splits)


def test_merge_on_read_shows_level_0_in_spite_of_vectors() -> None:
    options = {"bucket": "1", "deletion-vectors.enabled": "true", "deletion-vectors.merge-on-read": "true"}
    table = made(primary_key=["k"], properties=options)
    state = table.publish([[table.entry([row(1), row(5)]), table.entry([row(2), row(9)], level=5)]])
    [split] = plan(state).splits
    assert [len(section.runs) for section in split.sections] == [2]


@pytest.mark.parametrize(("deletes", "is_raw"), [(0, True), (None, True), (1, False)])
def test_a_lone_file_is_raw_unless_it_has_deleted_rows(deletes: int | None, is_raw: bool) -> None:
    table = made(primary_key=["k"], properties={"bucket": "1"})
    [split] = plan(table.publish([[table.entry([row(1), row(5)], delete_row_count=deletes)]])).splits
    assert split.is_raw is is_raw
    assert split.row_count == 2


def test_vectors_reach_their_files() -> None:
    table = made(partition_by=["dt"])
    entries = [table.entry([row(k, dt=dt)], total=-1) for k, dt in ((1, "a"), (2, "b"))]
    ranges = (DeletionVectorMeta(entries[1].file.file_name, 1, 22, 3), DeletionVectorMeta("gone.parquet", 31, 22))
    vectors = IndexManifestEntry(entries[1].partition, 0, DELETION_VECTORS, "index-0", 61, 2, ranges)
    hashes = IndexManifestEntry(entries[0].partition, 0, HASH, "index-1", 8, 2)
    found = plan(table.publish([entries], index=[vectors, hashes]))
    by_name = {file.location.rpartition("/")[2]: file.deletion_vector for split in found.splits for file in split.files}
    expected = VectorLocation(f"{table.location}/index/index-0", 1, 22, 3)
    assert by_name == {entries[0].file.file_name: None, entries[1].file.file_name: expected}
    twice = replace(vectors, file_name="index-2")
    with pytest.raises(FormatError, match="has two deletion vectors"):
        plan(table.publish([entries], index=[vectors, twice]))


@pytest.mark.parametrize("embedded", [True, False])
def test_indexes_prune_files_that_are_read_raw(embedded: bool) -> None:
    def index_of(names: Sequence[str]) -> bytes:
        builder = BloomFilterBuilder(decode_type("STRING"), items=100, fpp=0.01)
        builder.update(pa.array(names))
        return encode_container({"s": {"bloom-filter": builder.finish()}})

    table = made()
    entries = []
    for number, names in enumerate((["b", "x"], ["a", "z"])):
        entry = table.entry([row(1, s=names[0]), row(2, s=names[1])], total=-1, file_name=f"data-{number}.parquet")
        data = index_of(names)
        if embedded:
            file = replace(entry.file, embedded_index=data)
        else:
            file = replace(entry.file, extra_files=(f"data-{number}.parquet.index",))
            STORAGE.write(f"{table.location}/bucket-0/data-{number}.parquet.index", data)
        entries.append(replace(entry, file=file))
    state = table.publish([entries])
    found = plan(state, "s = 'x'")
    assert planned_names(found) == ["data-0.parquet"]
    assert _steps(found)["files by index"] == (2, 1)
    unread = table.publish([entries], schema_id=0)
    commit_schema(unread, ChangeSchema((lambda draft: draft.rename("s", "t"),)))
    assert planned_names(plan(table.publish([entries], schema_id=0), "t = 'x'")) == ["data-0.parquet"]


def test_statistics_are_those_of_the_schema_that_a_file_was_written_with() -> None:
    table = made()
    old = table.entry([row(1, v=5, s="m"), row(2, v=9, s="n")], total=-1)
    changes = (
        lambda draft: draft.rename("v", "w"),
        lambda draft: draft.update("w", "BIGINT", None, None),
        lambda draft: draft.delete("s"),
        lambda draft: draft.add("s", pa.string(), None, False, None),
    )
    state = commit_schema(table.publish([[old]]), ChangeSchema(changes))
    assert planned_names(plan(state, "w = 100")) == [old.file.file_name]  # the type is another one now
    assert planned_names(plan(state, "s = 'm'")) == []  # this column is none of the file's
    [split] = plan(state, "s is null").splits
    assert [file.matches_all for file in split.files] == [True]
    assert [file.schema_id for file in split.files] == [0]


def test_large_buckets_are_read_in_several_splits() -> None:
    table = made(properties={"source.split.target-size": "10 kb", "source.split.open-file-cost": "1 kb"})
    entries = [table.entry([row(k)], total=-1, file_size=3000) for k in range(10)]
    found = plan(table.publish([entries]))
    assert [len(list(split.files)) for split in found.splits] == [3, 3, 3, 1]
    assert [split.size_bytes for split in found.splits[1:3]] == [9000, 9000]
    assert found.splits[-1] == list(found.splits)[3]
    assert isinstance(found.splits[0], Split)
    with pytest.raises(IndexError):
        found.splits[4]


def test_changes_are_planned_file_by_file() -> None:
    table = made(primary_key=["k"], properties={"bucket": "1"})
    first, second = table.entry([row(1), row(5)]), table.entry([row(2), row(9)], delete_row_count=1)
    logged = table.entry([row(2)], file_name="changelog-0.parquet")
    gone = replace(first, kind=FileKind.DELETE)
    state = table.publish([[first]], [[gone, second]], changelog=[[logged]])
    assert state.snapshot is not None
    planner = ScanPlanner(state)
    assert planned_names(planner.plan_delta(state.snapshot)) == [second.file.file_name]
    assert all(split.is_raw for split in planner.plan_delta(state.snapshot).splits)
    assert planned_names(planner.plan_changelog(state.snapshot)) == ["changelog-0.parquet"]
    assert len(planner.plan_changelog(replace(state.snapshot, changelog_manifest_list=None)).splits) == 0
    assert len(planner.plan(None).splits) == 0


# Metadata that contradicts itself -----------------------------------------------------------------------------------


def test_entries_cancel_by_everything_that_makes_a_file() -> None:
    table = made(primary_key=["k"], properties={"bucket": "1"})
    low = table.entry([row(1), row(5)])
    up = replace(low, file=replace(low.file, level=5))
    gone = replace(low, kind=FileKind.DELETE)
    assert live_rows(batch_of([low, gone, up])).tolist() == [2]
    assert live_rows(batch_of([low, gone, low])).tolist() == [2]
    for other in (
        replace(gone, bucket=1),
        replace(gone, partition=b"other"),
        replace(gone, file=replace(gone.file, extra_files=("x.index",))),
        replace(gone, file=replace(gone.file, embedded_index=b"")),
        replace(gone, file=replace(gone.file, external_path="/x")),
        up if up.kind is FileKind.DELETE else replace(up, kind=FileKind.DELETE),
    ):
        with pytest.raises(FormatError, match=f"{low.file.file_name} is deleted, but it was never added"):
            live_rows(batch_of([low, other]))


def _files(table: MadeTable) -> list[ManifestEntry]:
    return [table.entry([row(1), row(5)]), table.entry([row(2), row(9)])]


def _name(table: MadeTable, name: str) -> list[ManifestEntry]:
    return [table.entry([row(1)], file_name=name)]


BAD: list[tuple[str, Callable[[MadeTable], list[ManifestEntry]], type[Exception], str]] = [
    ("twice", lambda t: _files(t)[:1] * 2, FormatError, "is added twice"),
    ("never added", lambda t: [replace(_files(t)[0], kind=FileKind.DELETE)], FormatError, "was never added"),
    (
        "buckets",
        lambda t: [_files(t)[0], replace(_files(t)[1], total_buckets=3)],
        FormatError,
        "files with different numbers of buckets",
    ),
    (
        "overlap",
        lambda t: [replace(one, file=replace(one.file, level=2)) for one in _files(t)],
        FormatError,
        "two files of the same level of a bucket overlap",
    ),
    (
        "keys",
        lambda t: [
            replace(one, file=replace(one.file, min_key=one.file.max_key, max_key=one.file.min_key))
            for one in _files(t)
        ],
        FormatError,
        "the least key of a file is above its greatest",
    ),
    (
        "no key",
        lambda t: [replace(_files(t)[0], file=replace(_files(t)[0].file, min_key=bytes(12)))],
        FormatError,
        "a row of 1 fields takes at least 20 bytes",
    ),
    ("partition", lambda t: [replace(_files(t)[0], partition=b"")], FormatError, "takes at least 12 bytes"),
    ("climbing", lambda t: _name(t, "../data-0.parquet"), FormatError, "is not a valid file name"),
    ("folder", lambda t: _name(t, "a/data-0.parquet"), FormatError, "is not a valid file name"),
    ("no name", lambda t: _name(t, ""), FormatError, "is not a valid file name"),
    ("format", lambda t: _name(t, "data-0.lance"), UnsupportedError, "data files of format 'lance'"),
    (
        "extra file",
        lambda t: [t.entry([row(1)], extra_files=("../x.index",))],
        FormatError,
        "'../x.index' is not a valid file name",
    ),
    (
        "outside",
        lambda t: [t.entry([row(1)], external_path="/etc/passwd.parquet")],
        SkerryError,
        "is outside its folder",
    ),
    (
        "some columns",
        lambda t: [t.entry([row(1)], write_cols=("k",))],
        UnsupportedError,
        r"data-evolution\.enabled",
    ),
]


@pytest.mark.parametrize(("entries", "error", "message"), [case[1:] for case in BAD], ids=[case[0] for case in BAD])
def test_metadata_that_cannot_be_is_refused(
    entries: Callable[[MadeTable], list[ManifestEntry]], error: type[Exception], message: str
) -> None:
    table = made(primary_key=["k"], properties={"bucket": "1"})
    found = entries(table)
    names = {entry.partition for entry in found}
    if names == {b""}:  # which cannot be summarised either
        with pytest.raises(FormatError, match=message):
            table.publish([found])
        return
    with pytest.raises(error, match=message):
        list(plan(table.publish([found])).splits)


def test_files_elsewhere_are_read_where_the_table_says_so() -> None:
    outside = [
        {"skerry.read.files-outside-location": "true"},
        {"data-file.external-paths": "/mnt/data,memory://other/x"},
    ]
    for properties in outside:
        table = made(properties=properties)
        entry = table.entry([row(1)], total=-1, external_path="memory://other/x/data-9.parquet")
        [split] = plan(table.publish([[entry]])).splits
        assert [file.location for file in split.files] == ["memory://other/x/data-9.parquet"]


def test_missing_and_changed_metadata_is_named() -> None:
    table = made()
    state = table.publish([[table.entry([row(1)], total=-1)]])
    assert state.snapshot is not None
    location = state.paths.manifest(state.snapshot.delta_manifest_list)
    data = STORAGE.read(location)
    STORAGE.write(location, data + b"\0", overwrite=True)
    with pytest.raises(FormatError, match="by the metadata"):
        plan(state)
    STORAGE.delete([location])
    with pytest.raises(NotFoundError) as found:
        plan(state)
    assert state.snapshot.delta_manifest_list in str(found.value)


def test_no_sections_make_no_splits() -> None:
    nothing = Sections.of_files(np.zeros(0, np.int64), np.zeros(0, np.int64))
    assert len(nothing.only(np.zeros(0, bool))) == 0
    assert nothing.any(np.zeros(0, bool)).tolist() == []


@pytest.mark.parametrize("threshold", ["1 b", "1 mb"])  # indexes beside the files, and within the manifest
def test_each_file_is_judged_by_its_own_index(threshold: str, tmp_path: Path) -> None:
    schema = pa.schema([("part", pa.string()), ("id", pa.int64()), ("n", pa.int64())])
    properties = {"file-index.bloom-filter.columns": "id", "file-index.in-manifest-threshold": threshold}
    table = PaimonTable.create(STORAGE, str(tmp_path / "t"), schema, partition_by=["part"], properties=properties)
    for first in range(3):  # files of one partition lie apart in the manifests, and bounds rule none of them out
        ids = range(first, 900, 3)
        parts = [f"p{i // 3 % 3}" for i in ids]
        table.append(pa.table({"part": parts, "id": [i * 7 for i in ids], "n": list(ids)}, schema))
    for wanted in range(0, 900, 37):
        assert table.scan(where=f"id = {wanted * 7}").to_arrow()["n"].to_pylist() == [wanted]
        assert table.scan(where=f"n = {wanted}").to_arrow()["id"].to_pylist() == [wanted * 7]


# Bounds of rows ------------------------------------------------------------------------------------------------------


def _numbered(start: int, stop: int) -> pa.Table:
    return pa.table({"k": pa.array(range(start, stop), pa.int64())})


def test_least_and_most_rows_of_tables_without_keys(tmp_path: Path) -> None:
    options = {"deletion-vectors.enabled": "true"}
    table = PaimonTable.create(STORAGE, str(tmp_path), _numbered(0, 0).schema, properties=options)
    table.append(_numbered(0, 10))
    table.append(_numbered(10, 30))
    assert scan(table.handle.state).row_bounds() == (30, 30)
    assert scan(table.handle.state, where="k >= 5").row_bounds() == (20, 30)
    assert scan(table.handle.state, where="k >= 10").row_bounds() == (20, 20)
    assert scan(table.handle.state, where="_pos = 1").row_bounds() == (0, 30)
    table.delete("k in (11, 12)")
    assert scan(table.handle.state).row_bounds() == (28, 30)
    assert scan(table.handle.state).count() == 28


def test_rows_that_must_be_merged_are_not_certain(tmp_path: Path) -> None:
    table = PaimonTable.create(
        STORAGE, str(tmp_path), _numbered(0, 0).schema, primary_key=["k"], properties={"bucket": "1"}
    )
    table.append(_numbered(0, 10))
    table.append(_numbered(100, 120))
    assert scan(table.handle.state).row_bounds() == (30, 30)
    table.append(_numbered(5, 15))
    assert scan(table.handle.state).row_bounds() == (20, 40)
    table.delete("k = 110")
    least, most = scan(table.handle.state).row_bounds()
    assert (least, most) == (0, 41)
    assert least <= scan(table.handle.state).count() <= most
    table.compact(full=True)
    assert scan(table.handle.state).row_bounds() == (34, 34)
