"""Rivals and failures: what goes together is committed, what does not is done again, what fails leaves no trace."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.errors import CommitUnknownError, ConflictError, SchemaError, SkerryError, StorageError
from skerry.iceberg.commit import IcebergTarget
from skerry.iceberg.handle import IcebergHandle
from skerry.storage import Storage

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])
COPY, MARK = "copy-on-write", "merge-on-read"
KINDS = [("2", COPY), ("2", MARK), ("3", COPY), ("3", MARK)]


def rows(keys, text):
    return pa.table({"k": list(keys), "s": [text] * len(keys)}, schema=SCHEMA)


def make(folder, version="2", mode=MARK, **properties):
    table = skerry.connect(folder).create_table(
        "d.t",
        SCHEMA,
        properties={
            "format-version": version,
            "write.delete.mode": mode,
            "write.merge.mode": mode,
            "commit.retry.min-wait-ms": "1",
            **properties,
        },
    )
    table.append(rows(range(10), "old"))
    return table


def content(table):
    return sorted(zip(*table.refresh().scan().to_arrow().to_pydict().values(), strict=True))


def data_files(folder):
    return {
        str(path) for path in Path(folder).rglob("*") if path.is_file() and "data" in path.relative_to(folder).parts
    }


@pytest.fixture
def rival(tmp_path, monkeypatch):
    """Lets another writer act just before each of the first commits of a table; tells how many there were."""
    commits = []

    def install(action, times=1):
        commit = IcebergHandle.commit

        def commit_late(self, operation):
            commits.append(operation)
            if len(commits) <= times:
                monkeypatch.setattr(IcebergHandle, "commit", commit)
                action(skerry.connect(tmp_path).load_table("d.t"))
                monkeypatch.setattr(IcebergHandle, "commit", commit_late)
            return commit(self, operation)

        monkeypatch.setattr(IcebergHandle, "commit", commit_late)
        return commits

    return install


@pytest.mark.parametrize(("version", "mode"), KINDS)
@pytest.mark.parametrize(
    ("ours", "theirs", "commits", "expected"),
    [
        # a rival inserts what we would insert: it is updated
        (
            lambda table: table.upsert(rows([20], "ours"), "k"),
            lambda table: table.append(rows([20], "theirs")),
            2,
            {(20, "ours")},
        ),
        # a rival deletes what we would update: it is inserted
        (
            lambda table: table.upsert(rows([3], "ours"), "k"),
            lambda table: table.delete("k = 3"),
            2,
            {(3, "ours")},
        ),
        # a rival updates what we would delete: there is nothing left to do
        (
            lambda table: table.delete("s = 'old' and k = 3"),
            lambda table: table.upsert(rows([3], "theirs"), "k"),
            1,
            {(3, "theirs")},
        ),
        # a rival overwrites everything
        (
            lambda table: table.upsert(rows([3, 4], "ours"), "k"),
            lambda table: table.overwrite(rows([3, 5], "theirs")),
            2,
            {(3, "ours"), (4, "ours"), (5, "theirs")},
        ),
        # a rival adds rows of which we can have none
        (
            lambda table: table.upsert(rows([3, 20], "ours"), "k"),
            lambda table: table.append(rows([100], "theirs")),
            1,
            {(3, "ours"), (20, "ours"), (100, "theirs")},
        ),
        # rows appended meanwhile are overwritten too
        (
            lambda table: table.overwrite(rows([1], "ours"), "k > 2"),
            lambda table: table.append(rows([100], "theirs")),
            2,
            {(1, "ours")},
        ),
        (
            lambda table: table.upsert(rows([3], "ours"), "k", blind=True),
            lambda table: table.upsert(rows([3, 4], "theirs"), "k"),
            1,
            {(3, "ours"), (4, "theirs")},
        ),
    ],
    ids=["insert", "delete", "update", "overwrite", "elsewhere", "overwritten", "blind"],
)
def test_the_outcome_is_as_if_the_rival_was_first(tmp_path, rival, version, mode, ours, theirs, commits, expected):
    table = make(tmp_path, version, mode)
    attempts = rival(theirs)
    before = {row for row in content(table) if row[1] == "old"}
    ours(table)
    found = content(table)
    assert {row for row in found if row[1] != "old"} == expected
    assert len(found) == len(set(found))
    assert {row for row in found if row[1] == "old"} <= before
    if (version, mode) != ("2", MARK) or commits == 1:  # two files of positions go together in version 2
        assert len(attempts) == commits


def test_deletes_of_the_same_rows_go_together(tmp_path, rival):
    table = make(tmp_path)
    commits = rival(lambda table: table.delete("k in (3, 4)"))
    table.delete("k in (4, 5)")
    assert [k for k, _ in content(table)] == [0, 1, 2, 6, 7, 8, 9]
    assert len(commits) == 1


def test_snapshot_isolation_overlooks_new_rows(tmp_path, rival):
    table = make(tmp_path, **{"write.merge.isolation-level": "snapshot"})
    commits = rival(lambda table: table.append(rows([3], "theirs")))
    table.upsert(rows([3], "ours"), "k")
    assert [row for row in content(table) if row[0] == 3] == [(3, "ours"), (3, "theirs")]
    assert len(commits) == 1


@pytest.mark.parametrize(("version", "mode"), KINDS)
def test_rivals_that_always_win_end_in_a_conflict_and_nothing_is_left_behind(tmp_path, rival, version, mode):
    table = make(tmp_path, version, mode, **{"commit.retry.num-retries": "2"})
    files = []

    def act(table):
        table.append(rows([20], f"theirs {len(files)}"))
        files.append({file.location.removeprefix("file://") for file in table.files()})

    commits = rival(act, times=10)
    with pytest.raises(ConflictError, match="failed after 3 attempts: ") as raised:
        table.upsert(rows([20, 3], "ours"), "k")
    assert not raised.value.retryable
    assert len(commits) == 3
    assert [row for row in content(table) if row[1] != "old"] == [(20, f"theirs {n}") for n in range(3)]
    assert data_files(tmp_path) == files[-1]


CHANGES = {
    "delete": lambda table: table.delete("k > 3 and s = 'old' and k < 8"),
    "overwrite": lambda table: table.overwrite(rows([1], "new"), "k < 5"),
    "upsert": lambda table: table.upsert(rows([1, 2, 30], "new"), "k"),
    "partial": lambda table: table.merge(
        rows([1, 2, 30], "").select(["k"]), "k", when_matched=skerry.Update({"s": "NULL"})
    ),
    "blind": lambda table: table.upsert(rows([1, 2, 30], "new"), "k", blind=True),
}


def failure_of(action):
    try:
        action()
    except SkerryError as error:
        return error
    return None


@pytest.mark.slow
@pytest.mark.parametrize(("version", "mode"), KINDS)
@pytest.mark.parametrize("change", CHANGES)
def test_a_failure_at_any_write_leaves_the_old_state(tmp_path, monkeypatch, version, mode, change):
    table = make(tmp_path, version, mode)
    before, files = content(table), data_files(tmp_path)
    calls = 0
    fail_at = 0

    def failing(name):
        real = getattr(Storage, name)

        def call(self, *arguments, **options):
            nonlocal calls
            calls += 1
            if calls == fail_at:
                raise StorageError("the disk is full")
            return real(self, *arguments, **options)

        monkeypatch.setattr(Storage, name, call)

    failing("write")
    failing("open_output")
    for number in range(1, 20):
        calls, fail_at = 0, number
        error = failure_of(lambda: CHANGES[change](table))
        if error is None:
            break
        assert "the disk is full" in str(error)
        assert content(table) == before
        assert data_files(tmp_path) == files
    assert fail_at > 2
    assert content(table) != before


@pytest.mark.parametrize("mode", [COPY, MARK])
def test_a_commit_of_unknown_outcome_keeps_its_files(tmp_path, monkeypatch, mode):
    table = make(tmp_path, mode=mode)
    files = data_files(tmp_path)

    def vanish(self, staged):
        raise CommitUnknownError("the line went dead")

    monkeypatch.setattr(IcebergTarget, "publish", vanish)
    with pytest.raises(CommitUnknownError):
        table.upsert(rows([1, 30], "new"), "k")
    assert len(data_files(tmp_path) - files) == 2
    with pytest.raises(CommitUnknownError):
        table.overwrite(rows([1], "new"))
    assert len(data_files(tmp_path) - files) == 3


def test_what_cannot_be_done_is_not_done_again(tmp_path, monkeypatch):
    table = make(tmp_path)
    attempts = []

    def fails(request, found):
        attempts.append(found)
        raise SchemaError("no")

    monkeypatch.setattr("skerry.iceberg.jobs.delete.apply_changes", fails)
    with pytest.raises(SchemaError):
        table.delete("k = 3")
    assert len(attempts) == 1
