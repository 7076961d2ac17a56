"""Streams: who writes to the table batch by batch, how often and how much; and who follows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Final

from skerry.markup import Column, Html, element, join, table
from skerry.markup.lines import Point, line_plot
from skerry.table.history import Snapshot
from skerry.table.table import Table
from skerry.table.work.heartbeats import RunningJob, running_jobs
from skerry.web.query import Query
from skerry.web.screens.catalog import total_of
from skerry.web.source import Source
from skerry.web.values import count, moment, over_time, short, size

__all__ = ["StreamsPage", "read_streams", "show_streams"]

_ICEBERG: Final = ("skerry.stream-id", "skerry.batch-id")
_NO_BATCH: Final = 2**63 - 1
"""The commit identifier of Paimon's commits that belong to no stream."""
_PLOTTED: Final = 6
_POINTS: Final = 500


@dataclass(frozen=True, slots=True)
class Batch:
    """A commit of a stream: its number, when it was committed, and the rows that it added."""

    number: int
    committed: datetime
    rows: int | None


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that has written to the table, by the snapshots that have not expired.

    Args:
        name: Its name; of a Paimon table the user of its commits.
        last_batch: The number of its last batch.
        commits: How many batches there are.
        rows: Rows that they added.
        interval_s: The median of the seconds between two of them; None for one.
        last: When the last one was committed.
        batches: The last of them, oldest first.
    """

    name: str
    last_batch: int
    commits: int
    rows: int
    interval_s: float | None
    last: datetime
    batches: list[Batch]


@dataclass(frozen=True, slots=True)
class Consumer:
    """A reader of a Paimon table that keeps snapshots from expiring: the next snapshot that it will read."""

    consumer: str
    next_snapshot: int


@dataclass(frozen=True, slots=True)
class StreamsPage:
    """Who works on a table: running jobs, streams, those with the newest batch first, and consumers that follow it."""

    jobs: list[RunningJob]
    streams: list[Stream]
    consumers: list[Consumer]


def read_streams(source: Source, query: Query) -> StreamsPage:
    """What the snapshots of a table say about streams."""
    opened = source.table(query.table)
    batches: dict[str, list[Batch]] = {}
    for name, batch in _batches(opened):
        batches.setdefault(name, []).append(batch)
    streams = [_stream(name, found) for name, found in batches.items()]
    consumers = []
    if "consumers" in opened.inspect.names:
        rows = opened.inspect.read("consumers").to_pylist()
        consumers = [Consumer(row["consumer_id"], row["next_snapshot_id"]) for row in rows]
    return StreamsPage(
        running_jobs(opened.location), sorted(streams, key=lambda stream: stream.last, reverse=True), consumers
    )


def _batches(opened: Table) -> list[tuple[str, Batch]]:
    """The batches of all streams, by the order of snapshots."""
    snapshots = opened.snapshots()
    if opened.format == "iceberg":
        name, number = _ICEBERG
        return [
            (snapshot.summary[name], _batch(int(snapshot.summary[number]), snapshot))
            for snapshot in snapshots
            if name in snapshot.summary and snapshot.summary.get(number, "").isdecimal()
        ]
    rows = opened.inspect.snapshots().select(["snapshot_id", "commit_user", "commit_identifier"]).to_pylist()
    writers = {row["snapshot_id"]: (row["commit_user"], row["commit_identifier"]) for row in rows}
    found = []
    for snapshot in snapshots:
        user, identifier = writers.get(snapshot.snapshot_id, (None, None))
        if user and identifier is not None and identifier != _NO_BATCH:
            found.append((user, _batch(identifier, snapshot)))
    return found


def _batch(number: int, snapshot: Snapshot) -> Batch:
    added = total_of(snapshot.summary, "added-records")
    return Batch(number, snapshot.timestamp, total_of(snapshot.summary, "delta-records") if added is None else added)


def _stream(name: str, batches: list[Batch]) -> Stream:
    moments = [batch.committed for batch in batches]
    between = [(after - before).total_seconds() for before, after in pairwise(moments)]
    return Stream(
        name,
        max(batch.number for batch in batches),
        len(batches),
        sum(batch.rows or 0 for batch in batches),
        median(between) if between else None,
        moments[-1],
        batches[-_POINTS:],
    )


def show_streams(found: StreamsPage, query: Query) -> Html:
    """Streams as a table, rows by batch as plots, and consumers."""
    columns = [
        Column[Stream]("stream", lambda stream: element("span", stream.name, class_="bdi")),
        Column[Stream]("last batch", lambda stream: count(stream.last_batch), right=True),
        Column[Stream]("committed", lambda stream: moment(stream.last)),
        Column[Stream]("batches", lambda stream: count(stream.commits), right=True, note="in snapshots that are there"),
        Column[Stream]("rows", lambda stream: count(stream.rows), right=True),
        Column[Stream]("every", _interval, right=True, note="the median of the time between batches"),
    ]
    followers = [
        Column[Consumer]("consumer", lambda consumer: element("span", consumer.consumer, class_="bdi")),
        Column[Consumer]("next snapshot", lambda consumer: str(consumer.next_snapshot), right=True),
    ]
    plots = [_plot(stream) for stream in found.streams[:_PLOTTED] if stream.commits > 1]
    return join(
        element(
            "div",
            element("h1", "Streams and jobs"),
            element("span", "streams by the batches in the table's snapshots", class_="dim"),
            class_="title",
        ),
        element("section", element("h2", "Running on this machine"), _jobs(found.jobs)) if found.jobs else None,
        element(
            "section",
            element("h2", "Streams"),
            table(found.streams, columns, caption="streams", empty="no stream has written to this table"),
        ),
        element("section", element("h2", "Rows by batch"), element("div", plots, class_="plots")) if plots else None,
        element(
            "section", element("h2", "Consumers"), table(found.consumers, followers, caption="consumers", class_="fit")
        )
        if found.consumers
        else None,
    )


def _jobs(jobs: list[RunningJob]) -> Html:
    columns = [
        Column[RunningJob]("job", lambda job: job.job),
        Column[RunningJob]("step", lambda job: job.step),
        Column[RunningJob]("files", lambda job: count(job.done_files), right=True),
        Column[RunningJob]("of", lambda job: count(job.total_files), right=True),
        Column[RunningJob]("rows", lambda job: count(job.done_rows), right=True),
        Column[RunningJob]("read or written", lambda job: size(job.done_bytes), right=True),
        Column[RunningJob]("begun", lambda job: moment(job.begun)),
        Column[RunningJob]("last seen", lambda job: moment(job.seen)),
        Column[RunningJob]("process", lambda job: str(job.process), right=True),
    ]
    return table(jobs, columns, caption="running jobs", class_="fit")


def _interval(stream: Stream) -> str:
    return "" if stream.interval_s is None else f"{stream.interval_s:,.1f} s"


def _plot(stream: Stream) -> Html:
    places = over_time([batch.committed for batch in stream.batches])
    points = [
        Point(
            place,
            batch.rows or 0,
            f"batch {batch.number}, {batch.committed:%Y-%m-%d %H:%M:%S}: {batch.rows or 0:,} rows",
        )
        for place, batch in zip(places, stream.batches, strict=True)
    ]
    ends = (f"{stream.batches[0].committed:%Y-%m-%d %H:%M}", f"{stream.batches[-1].committed:%Y-%m-%d %H:%M}")
    return line_plot(points, title=stream.name, show=short, ends=ends)
