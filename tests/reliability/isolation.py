"""Processes that change one table at once, and are killed: what was acknowledged is there once, and nothing else.

    python tests/reliability/isolation.py folder iceberg --commits 1500 --state isolation.jsonl

Every worker writes down what it is about to do and how that ended, in a file that outlives it. A round is a fresh table
with some hundred acknowledged commits; what was promised of it is checked by a process of its own, and its figures are
added to the state file, from which the next run goes on. Workers

- append rows with ids of their own, and delete some of them again: each acknowledged row is there once, or is gone;
- count: they read a row and add 1 by a merge, if it is what they have read; a lost update is a sum that is too small;
- upsert the same few keys, which nobody has inserted before: a key that is there twice is write skew, a value that is
  older than an acknowledged one is a lost update;
- compact and expire.

Tables of the kind `lookup` have a changelog by look-up, which every writer's compaction goes on with: replayed from its
beginning, each image being that of the row before it, it must give the table. Those of the kind `background` are
compacted in threads of the writers that go on meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import pyarrow as pa
from sweep import fork, processor_seconds, warm_up
from sweep_checks import check_statistics
from sweep_operations import FORMATS, SCHEMA, TABLE
from sweep_places import Place, place_of

import skerry
from skerry.errors import CommitUnknownError, ConflictError
from skerry.table.rows.changes import ChangeType

__all__ = ["Contest", "Figures", "main"]

COUNTERS = 3
SHARED = 100
"""The first key that several workers insert."""

SHARED_SECONDS = 0.5
"""How long they are after the same key."""

OWN = 1_000_000
"""Ids of a worker's own rows begin at its number times this."""

LATEST_KILL_SECONDS = 0.3
HANG_SECONDS = 600
RETRIES = {
    "iceberg": {"commit.retry.num-retries": "200", "commit.retry.min-wait-ms": "5", "commit.retry.max-wait-ms": "200"},
    "paimon": {"commit.max-retries": "200", "commit.min-retry-wait": "5 ms", "commit.max-retry-wait": "200 ms"},
}
KINDS: dict[str, dict[str, Any]] = {
    **FORMATS,
    "lookup": {
        **FORMATS["keyed"],
        "properties": {
            "changelog-producer": "lookup",
            "changelog.num-retained.max": "1000000",
            "changelog.time-retained": "10 d",
        },
    },
    "background": {
        **FORMATS["keyed"],
        "properties": {"num-sorted-run.compaction-trigger": "3", "skerry.compaction.background": "true"},
    },
}
"""Arguments of `create_table` by kind of table."""


@dataclass
class Figures:
    """What came of a contest.

    Args:
        acknowledged: Commits that returned.
        unknown: Those whose outcome was unknown: of killed workers, or reported so.
        conflicts: Those that gave up against others.
        kills: Workers that were killed.
        wrong: What was not as promised.
    """

    acknowledged: int = 0
    unknown: int = 0
    conflicts: int = 0
    kills: int = 0
    wrong: list[str] = field(default_factory=list)


class Worker:
    """What one process does until it is killed or told to stop.

    Args:
        place: Where the table is.
        number: Which worker it is; nobody else has had the number.
        log: Its log.
        stop: A file that says that it is over.
        begun: When the contest began.
    """

    def __init__(self, place: Place, number: int, log: Path, stop: Path, begun: float) -> None:
        self.number = number
        self.stop = stop
        self.begun = begun
        self.draw = random.Random(number)
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.table = place.connect().load_table(TABLE)
        self.own = number * OWN
        self.deletable: list[int] = []

    def run(self) -> None:
        """Go on until the end."""
        _delay_publishing(self.draw)
        while not self.stop.exists():
            kind, what, act = self.draw.choices(
                [self.append, self.delete, self.count, self.upsert, self.look_after], [8, 2, 4, 5, 1]
            )[0]()
            self.note(["tried", kind, what, time.monotonic()])
            try:
                act()
            except CommitUnknownError:
                self.note(["unknown"])
            except ConflictError:
                self.note(["conflict"])
            else:
                self.note(["acknowledged", time.monotonic()])

    def note(self, line: list[Any]) -> None:
        """Write a line at once."""
        os.write(self.log, (json.dumps(line) + "\n").encode())

    def append(self) -> tuple[str, Any, Callable[[], Any]]:
        """Rows of its own."""
        ids = list(range(self.own, self.own + 3))
        self.own += 3
        self.deletable.append(ids[0])
        return "append", ids, lambda: self.table.append(_rows(ids, self.number))

    def delete(self) -> tuple[str, Any, Callable[[], Any]]:
        """One of its own rows."""
        if not self.deletable:
            return self.append()
        row = self.deletable.pop(self.draw.randrange(len(self.deletable)))
        return "delete", row, lambda: self.table.delete(f"id = {row}")

    def count(self) -> tuple[str, Any, Callable[[], Any]]:
        """Add 1 to a counter, if it is what it was when it was read."""
        counter = self.draw.randrange(COUNTERS)

        def act() -> None:
            known = self.table.refresh().scan(["v"], where=f"id = {counter}").to_arrow()["v"].to_pylist()[0]
            more = _rows([counter], known + 1).append_column("known", pa.array([known]))
            update = skerry.Update({"v": "source.v"}, where="target.v = source.known")
            done = self.table.merge(more, on="id", when_matched=update)
            if not done.updated_rows:
                raise ConflictError("somebody else has counted meanwhile")

        return "count", counter, act

    def upsert(self) -> tuple[str, Any, Callable[[], Any]]:
        """A key that others insert, too, with a value that nobody else writes."""
        key = SHARED + int((time.monotonic() - self.begun) / SHARED_SECONDS)
        self.own += 1
        value = self.own
        return "upsert", [key, value], lambda: self.table.upsert(_rows([key], value), on=["id"])

    def look_after(self) -> tuple[str, Any, Callable[[], Any]]:
        """Compact, and let go of what nobody reads any more."""

        def act() -> None:
            self.table.refresh().compact(min_input_files=8)
            if self.table.properties.get("gc.enabled", "true") == "true":  # which Nessie says is not for its clients
                self.table.expire_snapshots(keep_last=20, older_than=datetime.now(UTC) - timedelta(seconds=20))

        return "upkeep", None, act


def _rows(ids: list[int], value: int) -> pa.Table:
    return pa.table({"id": ids, "v": [value] * len(ids), "s": ["x"] * len(ids)}, schema=SCHEMA)


def _delay_publishing(draw: random.Random) -> None:
    """A wait between what a commit has looked at and its publication makes races certain."""
    from skerry.iceberg.commit import IcebergTarget
    from skerry.paimon.commit import PaimonTarget

    for target in (IcebergTarget, PaimonTarget):
        publish = target.publish

        def late(self: Any, staged: Any, publish: Any = publish) -> Any:
            time.sleep(draw.uniform(0, 0.02))
            return publish(self, staged)

        target.publish = late  # type: ignore[method-assign]


class Contest:
    """One round: a table, workers, kills, and what came of it.

    Args:
        place: Where.
        kind: The kind of table.
        folder: For logs.
        workers: How many at a time.
        commits: How many must be acknowledged.
        kill_commits: After about so many acknowledged commits a worker is killed, at a random moment.
        seed: Of the kills.
    """

    def __init__(
        self, place: Place, kind: str, folder: Path, *, workers: int, commits: int, kill_commits: float, seed: int
    ) -> None:
        self.place, self.kind, self.folder = place, kind, folder
        self.workers, self.commits, self.kill_commits = workers, commits, kill_commits
        self.draw = random.Random(seed)
        self.stop = folder / "stop"
        self.running: dict[int, int] = {}
        self.kills = 0

    def run(self) -> Figures:
        """Play it, and check it."""
        fork(self._make)
        begun = deadline = time.monotonic()
        numbers = iter(range(1, 1_000_000))
        deadline += HANG_SECONDS + self.commits * 20
        next_kill = self._until_kill()
        while (acknowledged := self._acknowledged()) < self.commits:
            self._reap()
            while len(self.running) < self.workers:
                self._start(next(numbers), begun)
            if acknowledged > next_kill:
                time.sleep(self.draw.uniform(0, LATEST_KILL_SECONDS))
                os.kill(self.draw.choice(sorted(self.running)), signal.SIGKILL)
                self.kills += 1
                next_kill = acknowledged + self._until_kill()
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        self.stop.touch()
        for worker in list(self.running):
            os.waitpid(worker, 0)
        figures: Figures = fork(self._check)
        figures.kills = self.kills
        if figures.acknowledged < self.commits:
            figures.wrong.append(f"{figures.acknowledged} commits in {HANG_SECONDS + self.commits * 20} s")
        return figures

    def _until_kill(self) -> float:
        return self.draw.uniform(0.3, 1.7) * self.kill_commits

    def _make(self) -> None:
        options = KINDS[self.kind]
        own = {} if self.kind in FORMATS else options["properties"]
        properties = {**RETRIES[options["format"]], **own}
        table = self.place.connect().create_table(TABLE, SCHEMA, **{**options, "properties": properties})
        table.append(_rows(list(range(COUNTERS)), 0))

    def _start(self, number: int, begun: float) -> None:
        child = os.fork()
        if child == 0:
            try:
                Worker(self.place, number, self.folder / f"{number}.log", self.stop, begun).run()
            except BaseException as error:
                with (self.folder / f"{number}.failed").open("w") as file:
                    import traceback

                    file.write("".join(traceback.format_exception(error)))
            os._exit(0)
        self.running[child] = number

    def _reap(self) -> None:
        for worker in list(self.running):
            if os.waitpid(worker, os.WNOHANG)[0]:
                del self.running[worker]

    def _acknowledged(self) -> int:
        return sum(log.read_bytes().count(b'["acknowledged"') for log in self.folder.glob("*.log"))

    def _check(self) -> Figures:
        """Compare the table with the logs."""
        figures = Figures()
        for failed in sorted(self.folder.glob("*.failed")):
            figures.wrong.append(f"a worker failed: {failed.read_text()[-1500:]}")
        table = self.place.connect().load_table(TABLE)
        rows = table.scan().to_arrow()
        found = Counter(rows["id"].to_pylist())
        values = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
        tale = _Tale()
        for log in sorted(self.folder.glob("*.log")):
            tale.add([json.loads(line) for line in log.read_text().splitlines()], figures)
        figures.wrong += tale.compare(found, values)
        figures.wrong += check_statistics(table, rows)
        if self.kind == "lookup":
            table.compact(full=True)  # what the last killed worker has not come to
            figures.wrong += _replay(table.changes(1).to_arrow(), table.scan().to_arrow())
        return figures


def _replay(changes: pa.Table, rows: pa.Table) -> list[str]:
    """What of a changelog does not follow from the changes before, or from the rows that are there at last."""
    wrong, state = [], {}
    for change in changes.select([*SCHEMA.names, "_change_type"]).to_pylist():
        kind = ChangeType(change.pop("_change_type"))
        before = state.get(change["id"])
        if kind is ChangeType.INSERT or kind is ChangeType.UPDATE_AFTER:
            fits = (before is None) == (kind is ChangeType.INSERT)
            state[change["id"]] = change
        else:
            fits = before == change
            if kind is ChangeType.DELETE:
                state.pop(change["id"], None)
        if not fits:
            wrong.append(f"the changelog has {kind.value} of {change}, when there was {before}")
    there = {row["id"]: row for row in rows.to_pylist()}
    differing = [key for key in state.keys() | there.keys() if state.get(key) != there.get(key)]
    return wrong + [f"the changelog ends with {state.get(key)}, there is {there.get(key)}" for key in differing]


class _Tale:
    """What the logs say must be there, and may be."""

    def __init__(self) -> None:
        self.sure: set[int] = set()
        self.open: list[list[int]] = []
        self.gone: set[int] = set()
        self.perhaps_gone: set[int] = set()
        self.counts: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        self.upserts: dict[int, list[tuple[int, float, float | None]]] = defaultdict(list)

    def add(self, lines: list[Any], figures: Figures) -> None:
        """Read a worker's log."""
        for number, line in enumerate(lines):
            if line[0] != "tried":
                continue
            end = lines[number + 1] if number + 1 < len(lines) else ["unknown"]
            figures.acknowledged += end[0] == "acknowledged"
            figures.unknown += end[0] == "unknown"
            figures.conflicts += end[0] == "conflict"
            if end[0] != "conflict":
                self._note(line[1], line[2], line[3], end[1] if end[0] == "acknowledged" else None)

    def _note(self, kind: str, what: Any, begun: float, ended: float | None) -> None:
        match kind:
            case "append" if ended is not None:
                self.sure.update(what)
            case "append":
                self.open.append(what)
            case "delete":
                (self.perhaps_gone if ended is None else self.gone).add(what)
            case "count":
                self.counts[what][ended is None] += 1
            case "upsert":
                self.upserts[what[0]].append((what[1], begun, ended))

    def compare(self, found: Counter[int], values: dict[int, Any]) -> list[str]:
        """What is not as the logs say."""
        wrong = [f"row {row} is there {times} times" for row, times in found.items() if times != 1]
        must = self.sure - self.gone - self.perhaps_gone
        wrong += [f"acknowledged row {row} is lost" for row in sorted(must - found.keys())]
        wrong += [f"row {row} is there, and was deleted" for row in sorted(self.gone & found.keys())]
        for ids in self.open:
            if len({row in found for row in ids if row not in self.gone | self.perhaps_gone}) > 1:
                wrong.append(f"half of rows {ids} are there")
        may = self.sure | {row for ids in self.open for row in ids} | self.upserts.keys() | set(range(COUNTERS))
        wrong += [f"row {row} is there, and nobody has written it" for row in sorted(found.keys() - may)]
        for counter in range(COUNTERS):
            sure, unknown = self.counts[counter]
            if not sure <= values[counter] <= sure + unknown:
                wrong.append(f"counter {counter} is {values[counter]} after {sure} acknowledged and {unknown} unknown")
        for key, tried in self.upserts.items():
            wrong += _compare_upserts(key, tried, values.get(key))
        return wrong


def _compare_upserts(key: int, tried: list[tuple[int, float, float | None]], value: int | None) -> list[str]:
    """The value is that of an upsert after which no other one was begun and acknowledged."""
    if value is None:
        return [f"key {key} is lost"] if any(ended is not None for _, _, ended in tried) else []
    written = {one: ended for one, _, ended in tried}
    if value not in written:
        return [f"key {key} has value {value}, which nobody has written"]
    ended = written[value]
    later = [one for one, begun, done in tried if ended is not None and done is not None and begun > ended]
    return [f"key {key} has value {value}, and {later[0]} was written later"] if later else []


def main() -> int:
    """Play rounds until enough commits are acknowledged; 1 if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("place", help="folder, s3, rest or postgres")
    parser.add_argument("kinds", nargs="+", choices=list(KINDS), help="kinds of tables, in turn")
    parser.add_argument("--commits", type=int, default=1500, help="acknowledged ones, all rounds together")
    parser.add_argument("--round", type=int, default=250, help="acknowledged ones of a round")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kill-commits", type=float, default=5, help="after about so many commits a worker is killed")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--settings", default="{}", help="of the place, in JSON")
    parser.add_argument("--state", type=Path, help="rounds that were played; their commits count")
    arguments = parser.parse_args()
    name = f"{arguments.place} {' '.join(arguments.kinds)}"
    rounds = (
        [json.loads(line) for line in arguments.state.read_text().splitlines()]
        if (arguments.state is not None and arguments.state.exists())
        else []
    )
    done, failed = sum(one["acknowledged"] for one in rounds if one["name"] == name), False
    with tempfile.TemporaryDirectory(prefix="skerry-isolation-") as text:
        folder = Path(text)
        warm_up(folder / "warm")
        number = 0
        while done < arguments.commits:
            kind, seed = arguments.kinds[number % len(arguments.kinds)], arguments.seed + number
            logs = folder / str(number)
            (logs / "place").mkdir(parents=True)
            place = place_of(arguments.place, logs / "place", json.loads(arguments.settings))
            contest = Contest(
                place,
                kind,
                logs,
                workers=arguments.workers,
                commits=min(arguments.round, arguments.commits - done),
                kill_commits=arguments.kill_commits,
                seed=seed,
            )
            begun = time.monotonic()
            figures = contest.run()
            told = {
                "name": name,
                "kind": kind,
                "seed": seed,
                "seconds": round(time.monotonic() - begun),
                **vars(figures),
            }
            print(json.dumps(told), flush=True)
            if arguments.state is not None:
                with arguments.state.open("a") as file:
                    file.write(json.dumps(told) + "\n")
            done, failed, number = done + figures.acknowledged, failed or bool(figures.wrong), number + 1
            place.clear()
            if not figures.acknowledged:
                return 1
    print(f"{name}: {done} acknowledged commits, {processor_seconds():.0f} s of processor time", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
