"""Random histories of a table, its rivals and its dead writers: what is swept is exactly what nothing needs.

The model is a naive walk over JSON and Avro (`orphan_samples.oracle`). `make test` runs the same histories every time;
`make torture` runs `SKERRY_HISTORIES` new ones.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import os
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from orphan_samples import age, newer_states, oracle, sweep
from rivals import SCHEMA, files_below, keys, path_of, peer, rows

import skerry
from skerry.errors import SkerryError
from skerry.iceberg.catalogs import sql
from skerry.storage import Storage

_HISTORIES = os.environ.get("SKERRY_HISTORIES")
_NAME = "d.t"


class Killed(BaseException):
    """The process of a writer ends here."""


class History:
    """One table, its writers, and what they do."""

    def __init__(self, folder: Path, draw: Callable[..., Any]) -> None:
        self.folder = folder
        self.draw = draw
        self.catalog = skerry.connect(folder)
        version = draw(st.sampled_from([1, 2, 3]))
        mode = draw(st.sampled_from(["copy-on-write", "merge-on-read"])) if version > 1 else "copy-on-write"
        self.table = self.catalog.create_table(
            _NAME,
            SCHEMA,
            format_version=version,
            partition_by=draw(st.sampled_from([[], ["d"]])),
            properties={
                "write.delete.mode": mode,
                "write.merge.mode": mode,
                "commit.manifest.min-count-to-merge": "3",
                "write.metadata.previous-versions-max": draw(st.sampled_from(["2", "100"])),
                "commit.retry.min-wait-ms": "1",
            },
        )
        self.rows = itertools.count()

    def new_rows(self):
        start = next(self.rows) * 10
        return rows(start, start + 10)

    def step(self) -> None:
        kind = self.draw(st.sampled_from(list(STEPS)))
        event(kind)
        handle = self.draw(st.sampled_from([self.table, self.catalog.load_table(_NAME)]))
        try:
            STEPS[kind](self, handle)
        except SkerryError:
            event(f"{kind} was refused")

    def killed(self, action: Callable[[skerry.catalog.Table], Any], *, late: bool) -> None:
        """Let a writer die before it has sent its commit, or between its metadata file and the compare-and-swap."""
        catalog = skerry.connect(self.folder)
        table = catalog.load_table(_NAME)
        write = sql.write_metadata

        def die(*arguments: Any, **named: Any) -> None:
            if late:
                write(*arguments, **named)
            raise Killed

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sql, "write_metadata", die)
            patch.setattr(Storage, "delete", lambda self, locations: None)
            with contextlib.suppress(Killed):
                action(table)

    def litter(self) -> None:
        """What other engines leave: files of tasks that were never committed, checksums, unfinished uploads."""
        data, metadata = (path_of(self.table.location) / name for name in ("data", "metadata"))
        name = uuid.uuid4().hex
        (data / "d=1" / "_temporary" / "0").mkdir(parents=True, exist_ok=True)
        pq.write_table(rows(0, 3), data / "d=1" / f"00000-0-{name}.parquet")
        pq.write_table(rows(0, 3), data / "d=1" / "_temporary" / "0" / f"part-{name}.parquet")
        (data / f".00000-0-{name}.parquet.crc").write_bytes(b"crc")
        (metadata / f"{name}-m0.avro").write_bytes(b"Obj")
        (metadata / f"00009-{name}.metadata.json").write_text('{"format-version": 2, "lo')

    def sweep(self) -> None:
        """Sweep, with rivals at work or alone, and compare with the model."""
        if self.draw(st.booleans()):
            age(self.folder)
        is_alone = self.draw(st.booleans())
        rival = None if is_alone else Rival(self)
        before = {path: os.stat(path).st_mtime for path in files_below(self.folder)}
        newer = newer_states(self.table)
        cutoff = dt.datetime.now().timestamp() - 86_400
        done = sweep(self.table, older_than_days=1, executor=rival)
        after = files_below(self.folder)
        swept = {os.path.normpath(path_of(file.location)) for file in done.files}
        needed = oracle(self.table)
        assert needed <= after, "a live file was deleted"
        assert swept.isdisjoint(after)
        assert all(before[path] < cutoff for path in swept), "a young file was deleted"
        if is_alone:
            assert swept.isdisjoint(newer), "a file of a state that may yet be committed was deleted"
            dead = {path for path, modified in before.items() if modified < cutoff} - needed - newer
            assert swept == dead, "too little was deleted"
        self.read_all()

    def read_all(self) -> None:
        """Every branch, tag and snapshot can be read."""
        self.table.refresh()
        for snapshot in self.table.snapshots():
            keys(self.table, snapshot=snapshot.snapshot_id)


class Rival:
    """An executor beside whose tasks others write."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.left = 3

    def map(self, function, tasks):
        for task in tasks:
            yield function(task)
            if self.left and self.history.draw(st.booleans()):
                self.left -= 1
                other = self.history.catalog.load_table(_NAME)
                kind = self.history.draw(st.sampled_from(["append", "delete", "compact", "expire", "tag"]))
                try:
                    STEPS[kind](self.history, other)
                except SkerryError:
                    event(f"rival's {kind} was refused")


def _expire(history, table):
    table.expire_snapshots(older_than=dt.datetime.now(dt.UTC), keep_last=1)


def _rollback(history, table):
    snapshots = table.snapshots()
    if snapshots:
        chosen = history.draw(st.sampled_from(snapshots))
        table.set_current_snapshot(chosen.snapshot_id)


def _expire_with_peer(history, table):
    """PyIceberg forgets snapshots and deletes no file."""
    theirs = peer(history.folder, _NAME)
    gone = [snapshot.snapshot_id for snapshot in theirs.snapshots()][:-1]
    kept = {ref.snapshot_id for ref in theirs.refs().values()}
    if table.format_version < 3 and set(gone) - kept:
        theirs.maintenance.expire_snapshots().by_ids(sorted(set(gone) - kept)).commit()


def _append_with_peer(history, table):
    if table.format_version < 3:
        peer(history.folder, _NAME).append(history.new_rows())


STEPS: dict[str, Callable[[History, Any], Any]] = {
    "append": lambda history, table: table.append(history.new_rows()),
    "append staged": lambda history, table: table.append(history.new_rows(), staged=True),
    "append to a branch": lambda history, table: table.append(history.new_rows(), ref="b"),
    "append by another engine": _append_with_peer,
    "delete": lambda history, table: table.delete(f"k > {history.draw(st.integers(0, 60))}"),
    "upsert": lambda history, table: table.upsert(rows(5, 25), on=["k"]),
    "compact": lambda history, table: table.compact(full=True),
    "analyze": lambda history, table: table.analyze(full=True),
    "expire": _expire,
    "expire by another engine": _expire_with_peer,
    "rollback": _rollback,
    "branch": lambda history, table: table.create_branch("b", replace=True),
    "tag": lambda history, table: table.create_tag(f"t{history.draw(st.integers(0, 2))}", replace=True),
    "drop": lambda history, table: table.drop_ref(history.draw(st.sampled_from(["b", "t0", "t1"]))),
    "upgrade": lambda history, table: table.upgrade(3),
    "die early": lambda history, _: history.killed(lambda table: table.append(history.new_rows()), late=False),
    "die late": lambda history, _: history.killed(lambda table: table.append(history.new_rows()), late=True),
    "die deleting": lambda history, _: history.killed(lambda table: table.delete("k < 12"), late=True),
    "litter": lambda history, _: history.litter(),
    "age": lambda history, _: age(history.folder),
    "sweep": lambda history, _: history.sweep(),
}


@pytest.mark.slow
@settings(
    max_examples=int(_HISTORIES or 12),
    deadline=None,
    derandomize=_HISTORIES is None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
    phases=(Phase.generate, Phase.shrink),
)
@given(data=st.data())
def test_exactly_what_nothing_needs_is_swept(data):
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder), data.draw)
        history.table.append(history.new_rows())
        for _ in range(data.draw(st.integers(4, 12), "steps")):
            history.step()
        history.sweep()
