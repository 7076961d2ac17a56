"""Changelogs by compaction of Paimon tables beside Paimon Java: upserts with look-up, and full compactions.

A table with a primary key, four buckets and ten million rows at the highest level is made once. `lookup` upserts
commits of 200,000 random keys, each followed by the compaction that takes them up, looks the older rows up and writes
the changelog: rows upserted per second. `full-compaction` upserts as many, compacts everything to the highest level and
writes the changelog: records merged per second. Each route begins with a copy of the table.

With `--java` Paimon Java does the same in Spark's JVM, in one process: it makes its rows before the clock starts. Its
bundle is fetched by Spark; without it only our figures are shown.

On a machine that has other work, the processor time says more than the time of the clock; ours is shown, too.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from figures import figure
from paimon_read import ROOT, SCHEMA, some_rows
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

BUNDLE = "org.apache.paimon:paimon-bundle:1.4.2"
PEER = """
import java.util.List;
import java.util.Random;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.local.LocalFileIO;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.sink.TableCommitImpl;
import org.apache.paimon.table.sink.TableWriteImpl;

public class ChangelogPeer {
    private final String folder;
    private GenericRow[] rows;
    private TableWriteImpl write;
    private TableCommitImpl commit;
    private long commits;

    public ChangelogPeer(String folder) { this.folder = folder; }

    public void open(String path) throws Exception {
        Options wanted = new Options();
        wanted.set("path", path);
        FileStoreTable table = FileStoreTableFactory.create(LocalFileIO.create(), wanted);
        write = table.newWrite("peer");
        write.withIOManager(IOManager.create(folder));
        commit = table.newCommit("peer");
        commits = 0;
    }

    public void make(int count, long keys, long seed) {
        Random random = new Random(seed);
        rows = new GenericRow[count];
        for (int i = 0; i < count; i++) {
            GenericRow row = new GenericRow(5);
            row.setField(0, Long.valueOf((long) (random.nextDouble() * keys)));
            row.setField(1, BinaryString.fromString("name " + random.nextInt(1000)));
            row.setField(2, Double.valueOf(random.nextDouble()));
            row.setField(3, Integer.valueOf(random.nextInt(1000)));
            row.setField(4, Timestamp.fromMicros((long) (random.nextDouble() * 1e15)));
            rows[i] = row;
        }
    }

    public void commit(boolean full, int buckets) throws Exception {
        for (int i = 0; i < rows.length; i++) write.write(rows[i]);
        if (full) for (int i = 0; i < buckets; i++) write.compact(org.apache.paimon.data.BinaryRow.EMPTY_ROW, i, true);
        List messages = write.prepareCommit(true, ++commits);
        commit.commit(commits, messages);
    }

    public void close() throws Exception {
        write.close();
        commit.close();
    }
}
"""
Timing = tuple[float, float]
BUCKETS = 4


def make(folder: Path, rows: int, random: np.random.Generator) -> None:
    """The table that every route begins with; it has no changelog option yet."""
    table = PaimonTable.create(
        Storage(),
        str(folder / "base"),
        SCHEMA,
        primary_key=["id"],
        properties={"bucket": str(BUCKETS), "write-only": "true"},
    )
    step = 2_500_000
    for start in range(0, rows, step):
        table.append(some_rows(np.arange(start, min(start + step, rows)), random))
    table.compact(full=True)


def copied(folder: Path, producer: str) -> PaimonTable:
    """A copy of the table with a changelog."""
    place = folder / "table"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / "base", place)
    table = PaimonTable.open(Storage(), str(place))
    table.set_properties({"changelog-producer": producer, "write-only": "false"})
    return table


def timed(run: Any, *arguments: Any) -> Timing:
    start, used = time.perf_counter(), time.process_time()
    run(*arguments)
    return time.perf_counter() - start, time.process_time() - used


def ours(table: PaimonTable, commits: list[pa.Table], *, full: bool) -> list[Timing]:
    def commit(rows: pa.Table) -> None:
        table.append(rows)
        if full:
            table.compact(full=True)

    return [timed(commit, rows) for rows in commits]


def peer(folder: Path) -> Any:
    """Paimon Java in Spark's JVM."""
    import skerry.spark

    spark = skerry.spark.session("paimon-changelog", master="local[1]", packages=[BUNDLE])
    gateway, jvm = spark.sparkContext._gateway, spark._jvm
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setSourceVersion(11)
    compiler.setTargetVersion(11)
    compiler.cook(PEER)
    made = compiler.getClassLoader().loadClass("ChangelogPeer")
    types, arguments = gateway.new_array(jvm.java.lang.Class, 1), gateway.new_array(jvm.java.lang.Object, 1)
    types[0], arguments[0] = jvm.java.lang.Class.forName("java.lang.String"), str(folder)
    return made.getConstructor(types).newInstance(arguments)


def theirs(java: Any, table: PaimonTable, size: int, count: int, keys: int, *, full: bool) -> list[Timing]:
    java.open(table.location)
    times = []
    for number in range(count):
        java.make(size, keys, number)
        times.append(timed(java.commit, full, BUCKETS))
    java.close()
    return times


def show(name: str, route: str, times: list[Timing], records: int) -> None:
    if route == "skerry":
        figure(name, [seconds for seconds, _ in times])
    wall, used = (statistics.median(values) for values in zip(*times, strict=True))
    processor = f", {used:7.3f} s of processor time" if route == "skerry" else ""  # Java's is another process
    print(f"{name:16} {route:8} {wall:7.3f} s a commit, {records / wall:12,.0f} rows/s{processor}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the table")
    parser.add_argument("--size", type=int, default=200_000, help="rows of a commit")
    parser.add_argument("--commits", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=ROOT / ".cache" / "paimon-changelog")
    parser.add_argument("--java", action="store_true", help="beside Paimon Java, in Spark's JVM")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    random = np.random.default_rng(7)
    make(given.folder, given.rows, random)
    commits = [some_rows(random.choice(given.rows, given.size, replace=False), random) for _ in range(given.commits)]
    java = peer(given.folder) if given.java else None
    for producer in ("lookup", "full-compaction"):
        full = producer == "full-compaction"
        records = given.rows + given.size if full else given.size
        show(producer, "skerry", ours(copied(given.folder, producer), commits, full=full), records)
        if java is not None:
            table = copied(given.folder, producer)
            times = theirs(java, table, given.size, given.commits, given.rows, full=full)
            show(producer, "Java", times, records)
    shutil.rmtree(given.folder)


if __name__ == "__main__":
    main()
