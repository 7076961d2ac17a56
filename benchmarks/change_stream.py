"""How many changes a second the example's stream writes into an Iceberg and a Paimon table, looked after meanwhile.

Record files made beforehand appear in the stream's folder at the rate asked for, whether the stream keeps up or not; it
reads, parses and writes them into both tables on two cores, on which the upkeep runs as well, in a process of its own.
Told are the rate, the time from a file's coming to its commit in both tables, files, memory and processor time; at the
end both tables must hold exactly what the records say.

    python benchmarks/change_stream.py --seconds 600 --plot docs/change-stream.svg
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from change_records import FILE_RECORDS, expected_rows, make_records
from figures import figure
from line_charts import Chart, draw

EXAMPLE = Path(__file__).parents[1] / "examples" / "change_data"
sys.path.insert(0, str(EXAMPLE))

from stream import ICEBERG, PAIMON, create_tables, start  # noqa: E402

import skerry  # noqa: E402
import skerry.spark  # noqa: E402
from skerry.catalog import Table  # noqa: E402
from skerry.spark import ChangeIngestSummary  # noqa: E402

FOLDER = Path(__file__).parents[1] / ".cache" / "change-stream"
CORES = 2
EVERY_SECONDS = 2.0
UPKEEP_SECONDS = 15


@dataclass
class Course:
    """What happened, by seconds since the first change.

    Args:
        batches: When each batch ended, its number, and how many records it had.
        samples: Named values, by second.
        latencies: Seconds from when a batch's first file was there to its commit in both tables, by second.
    """

    begun: float = 0.0
    batches: list[tuple[float, int, int]] = field(default_factory=list)
    samples: dict[str, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))
    latencies: list[tuple[float, float]] = field(default_factory=list)

    @property
    def now(self) -> float:
        return time.time() - self.begun

    def note(self, name: str, value: float) -> None:
        self.samples[name].append((self.now, value))

    def report(self, done: ChangeIngestSummary) -> None:
        self.batches.append((self.now, done.batch, done.records))

    @property
    def written(self) -> int:
        return sum(records for _, _, records in self.batches)

    def note_latencies(self, checkpoint: Path) -> None:
        """Per batch, seconds from when its first file was there to its commit in both tables.

        The checkpoint names the files of each batch, with their times.
        """
        first: dict[int, float] = {}
        for log in (checkpoint / "sources" / "0").iterdir():
            if not log.name.startswith("."):
                for line in log.read_text().splitlines()[1:]:
                    file = json.loads(line)
                    first[file["batchId"]] = min(first.get(file["batchId"], np.inf), file["timestamp"] / 1000)
        self.latencies = [(ended, ended + self.begun - first[number]) for ended, number, _ in self.batches]


# Feeding -------------------------------------------------------------------------------------------------------------


def publish(path: Path, records: Path) -> None:
    """Let a file appear in the stream's folder, as old as it is there."""
    os.utime(path)
    os.link(path, records / path.name)


def feed(paths: list[Path], records: Path, course: Course, rate: float, stopped: threading.Event) -> None:
    """Publish files at a rate, each when its last change has happened."""
    for number, path in enumerate(paths, 1):
        if stopped.wait(max(0.0, number * FILE_RECORDS / rate - course.now)):
            return
        publish(path, records)
        course.note("changes made", number * FILE_RECORDS)


# Watching ------------------------------------------------------------------------------------------------------------


def processes() -> dict[int, str]:
    """This process and all below it, by what they are."""
    parents, names = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
            names[int(entry.name)] = (
                "JVM" if "java" in command.split(" ")[0] else "upkeep" if "upkeep.py" in command else "Python workers"
            )
    own = os.getpid()
    found = {own: "driver"}
    for pid in parents:
        line = pid
        while line in parents and line != own:
            line = parents[line]
        if line == own and pid != own:
            found[pid] = names[pid]
    return found


def use(pid: int) -> tuple[float, float]:
    """Resident memory in MB and processor seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6, ticks / os.sysconf("SC_CLK_TCK")


def watch(tables: list[Table], course: Course, stopped: threading.Event) -> None:
    """Note memory, processor time and files until told to stop."""
    folders = {table.name: Path(table.location.removeprefix("file://")) for table in tables}
    while not stopped.wait(EVERY_SECONDS):
        memory: dict[str, float] = defaultdict(float)
        seconds: dict[str, float] = defaultdict(float)
        for pid, name in processes().items():
            try:
                used, ticks = use(pid)
            except OSError:
                continue
            memory[name] += used
            seconds[name] += ticks
        for name, value in memory.items():
            course.note(f"memory {name}", value)
            course.note(f"processor {name}", seconds[name])
        for table in tables:
            course.note(f"live {table.name}", len(table.refresh().files()))
            found = [file for _, _, files in os.walk(folders[table.name]) for file in files]
            course.note(f"stored {table.name}", len(found))
        course.note("changes written", course.written)


# Running -------------------------------------------------------------------------------------------------------------


def run(paths: list[Path], rate: float, seconds: float, *, with_upkeep: bool, files_per_batch: int) -> Course:
    """Feed the stream, and wait until it has written everything."""
    folder = FOLDER / "run"
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "records").mkdir(parents=True)
    tables = create_tables(skerry.connect(folder / "warehouse"))
    spark = skerry.spark.session("change stream", master=f"local[{CORES}]")
    course, stopped = Course(), threading.Event()
    course.begun = time.time()
    query = start(
        spark,
        folder / "records",
        tables,
        folder / "checkpoint",
        files_per_batch=files_per_batch,
        progress=course.report,
    )
    upkeep = None
    try:
        publish(paths[0], folder / "records")
        wait_until(lambda: course.batches or not query.isActive, 600)
        if with_upkeep:
            command = [sys.executable, EXAMPLE / "upkeep.py", folder / "warehouse", ICEBERG, PAIMON]
            with (folder / "upkeep.log").open("w") as log:
                upkeep = subprocess.Popen([*command, "--every-seconds", str(UPKEEP_SECONDS)], stdout=log, stderr=log)
        course.batches.clear()
        course.begun = time.time()
        others = [
            threading.Thread(target=feed, args=(paths[1:], folder / "records", course, rate, stopped)),
            threading.Thread(target=watch, args=(tables, course, stopped)),
        ]
        for other in others:
            other.start()
        wait_until(lambda: course.written >= FILE_RECORDS * len(paths[1:]) or not query.isActive, seconds * 4 + 60)
    finally:
        stopped.set()
        query.stop()
        if upkeep is not None:
            upkeep.terminate()
            upkeep.wait()
    if query.exception() is not None:
        raise query.exception()
    for other in others:
        other.join()
    course.note_latencies(folder / "checkpoint")
    verify(tables, paths)
    spark.stop()
    return course


def wait_until(done: object, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not done() and time.monotonic() < deadline:
        time.sleep(0.1)


def verify(tables: list[Table], paths: list[Path]) -> None:
    """Compare both tables with what the records come to."""
    expected = expected_rows(paths, tables[0].schema)
    for table in tables:
        found = table.refresh().scan().to_arrow().sort_by("id").cast(expected.schema)
        if not found.equals(expected):
            raise SystemExit(
                f"{table.name} holds {found.num_rows:,} rows that are not the {expected.num_rows:,} expected"
            )
        states = sorted({str(freshness).split(":")[0] for freshness in table.freshness().values()})
        print(f"{table.name}: {found.num_rows:,} rows, all as the records say; statistics {', '.join(states)}")


# Telling -------------------------------------------------------------------------------------------------------------


def tell(course: Course, rate: float, changes: int) -> None:
    ended = course.batches[-1][0]
    latencies = np.array([latency for _, latency in course.latencies])
    thirds = [third for third in np.array_split(latencies, 3) if len(third)]
    figure("changes", changes / ended, unit="1/s", more_is_better=True)
    figure("from a batch's first file to its commit", float(np.median(latencies)))
    print(
        f"{changes:,} changes, {rate:,.0f} a second, in {len(course.batches)} batches: all written after {ended:.1f} s,"
    )
    print(f"which is {changes / ended:,.0f} changes a second into each of two tables")
    print(
        f"seconds from a batch's first file to its commit in both tables: median {np.median(latencies):.1f}, "
        f"95 % {np.percentile(latencies, 95):.1f}, greatest {latencies.max():.1f}; "
        f"medians by third of the run {', '.join(f'{np.median(third):.1f}' for third in thirds)}"
    )
    for name, line in sorted(course.samples.items()):
        values = [value for _, value in line]
        if name.startswith("memory"):
            print(f"{name}: at most {max(values):,.0f} MB")
        elif name.startswith("processor"):
            print(f"{name}: {values[-1] - values[0]:,.1f} s")
        elif name.startswith(("live", "stored")):
            print(f"{name} files: at most {max(values):,.0f}, at the end {values[-1]:,.0f}")


def charts(course: Course) -> str:
    """The run as a picture."""

    def group(prefix: str) -> dict[str, list[tuple[float, float]]]:
        return {name.removeprefix(prefix): line for name, line in course.samples.items() if name.startswith(prefix)}

    million = {name: [(x, y / 1e6) for x, y in course.samples[name]] for name in ("changes made", "changes written")}
    return draw(
        [
            Chart("Changes, millions", million),
            Chart("From a batch's first file to its commit in both tables, seconds", {"latency": course.latencies}),
            Chart("Data files that the newest snapshot reads", group("live ")),
            Chart("Files in the table's folder, of all kinds", group("stored ")),
            Chart("Resident memory, MB", group("memory ")),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=float, default=50_000, help="changes a second")
    parser.add_argument("--orders", type=int, default=1_000_000, help="rows at first")
    parser.add_argument("--files-per-batch", type=int, default=60)
    parser.add_argument("--no-upkeep", action="store_true")
    parser.add_argument("--plot", type=Path, help="where to draw the run")
    arguments = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    files = round(arguments.seconds * arguments.rate / FILE_RECORDS)
    made = FOLDER / f"records-{arguments.orders}-{files}-{arguments.rate:.0f}"
    paths = make_records(made, arguments.orders, files, arguments.rate)
    course = run(
        paths,
        arguments.rate,
        arguments.seconds,
        with_upkeep=not arguments.no_upkeep,
        files_per_batch=arguments.files_per_batch,
    )
    tell(course, arguments.rate, files * FILE_RECORDS)
    if arguments.plot is not None:
        arguments.plot.write_text(charts(course))
        print(f"drawn in {arguments.plot}")


if __name__ == "__main__":
    main()
