"""Rows by value and by words in an Iceberg table of Parquet files, beside DuckDB, PyArrow and Lance on the same rows.

Log lines are made under `.cache/`: time, service, level, a random trace id of 32 hexadecimal digits, and a message of
six words, whose frequencies follow Zipf's law; `timeout` is in one of a hundred lines, a rare word in thirty lines.
They are appended to a table with a hash index of the ids and a text index of the messages, and to one without. DuckDB
and PyArrow read the files of the table without indexes. Lance, which has a format of its own with a B-tree and a
full-text index, is measured in the Python that `--lance` names, tantivy, which finds words only, in that of
`--tantivy`; without these they are left out. What indexes do for changes of rows is in indexed_changes.py.

    python benchmarks/lookup.py --rows 5000000 --lance ~/lance/bin/python
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import skerry
from figures import figure

ROOT = Path(__file__).parents[1]
BATCH = 1_000_000
RARE = 30
MANY = 1_000
PLAIN, INDEXED = "logs.plain", "logs.indexed"

COLD = """
import json, sys, time, skerry
catalog = skerry.connect(sys.argv[1])
times = []
# the first look-up, in a small table, imports modules and loads kernels
for name, trace in (("logs.warm", sys.argv[2]), ("logs.indexed", sys.argv[3])):
    table = catalog.load_table(name)
    start, used = time.perf_counter(), time.process_time()
    assert table.scan(where=f"trace = '{trace}'").to_arrow().num_rows == 1
    times += [time.perf_counter() - start, time.process_time() - used]
print(json.dumps(times))
"""

TANTIVY = """
import json, sys, time
import pyarrow.dataset as ds, tantivy
folder, files = json.loads(sys.stdin.readline())
def show(found): print(json.dumps(found), flush=True)
schema = tantivy.SchemaBuilder().add_text_field("message", stored=True).build()
index = tantivy.Index(schema)
messages = ds.dataset(files).to_table(["message"])["message"].to_pylist()
start = time.perf_counter()
writer = index.writer()
for message in messages:
    writer.add_document(tantivy.Document(message=message))
writer.commit()
writer.wait_merging_threads()
index.reload()
show({"text": time.perf_counter() - start})
searcher = index.searcher()
for line in sys.stdin:
    _, text = json.loads(line)
    start = time.perf_counter()
    hits = searcher.search(index.parse_query(text, ["message"]), limit=1_000_000).hits
    found = [searcher.doc(address)["message"] for _, address in hits]
    show([time.perf_counter() - start, len(found)])
"""

LANCE = """
import json, sys, time
import lance, pyarrow.dataset as ds
folder, files = json.loads(sys.stdin.readline())
def show(found): print(json.dumps(found), flush=True)
start = time.perf_counter()
rows = lance.write_dataset(ds.dataset(files).scanner(), folder, mode="overwrite")
written = time.perf_counter()
rows.create_scalar_index("trace", "BTREE")
hashed = time.perf_counter()
rows.create_scalar_index("message", "INVERTED", with_position=True)
show({"write": written - start, "hash": hashed - written, "text": time.perf_counter() - hashed})
for line in sys.stdin:
    kind, text = json.loads(line)
    start = time.perf_counter()
    if kind == "where":
        found = rows.to_table(filter=text)
    else:
        found = rows.to_table(full_text_query=text, with_row_id=True)
    show([time.perf_counter() - start, found.num_rows])
"""


def lines(rows: int) -> Iterator[pa.Table]:
    """The rows, batch by batch."""
    random = np.random.default_rng(11)
    words = np.array(
        [f"{word}{number}" for number in range(10_000) for word in ("disk", "user", "route", "shard", "key")]
    )
    services = np.array(["api", "auth", "billing", "search", "storage"])
    levels = np.array(["DEBUG", "INFO", "WARN", "ERROR"])
    for start in range(0, rows, BATCH):
        count = min(BATCH, rows - start)
        chosen = words[np.minimum(random.zipf(1.2, (count, 6)) - 1, len(words) - 1)]
        chosen[random.random(count) < 0.01, 2] = "timeout"
        chosen[random.choice(count, min(count, max(RARE * count // rows, 1)), replace=False), 4] = "zyzzyva"
        digits = random.integers(0, 256, (count, 16), dtype=np.uint8).tobytes().hex()
        yield pa.table(
            {
                "ts": pa.array(1_700_000_000_000_000 + 1000 * np.arange(start, start + count), pa.timestamp("us")),
                "service": services[random.integers(0, len(services), count)],
                "level": levels[random.integers(0, len(levels), count)],
                "trace": [digits[32 * place : 32 * place + 32] for place in range(count)],
                "message": pc.binary_join_element_wise(*(pa.array(chosen[:, place]) for place in range(6)), " "),
            }
        )


def timed(act: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = act()
    return time.perf_counter() - start, found


def build(folder: Path, rows: int) -> Any:
    """The two tables, with what making them took."""
    catalog = skerry.connect(folder / "lake")
    if (folder / "done").exists():
        return catalog
    shutil.rmtree(folder, ignore_errors=True)
    catalog = skerry.connect(folder / "lake")
    schema = next(lines(1)).schema
    size = {"write.parquet.row-group-size-bytes": str(128 << 20)}
    plain, indexed = (catalog.create_table(name, schema, properties=size) for name in (PLAIN, INDEXED))
    warm = catalog.create_table("logs.warm", schema, properties={"skerry.index.trace": "hash"})
    warm.append(next(lines(1000)))
    warm.create_index(["message"], kind="text")
    indexed.set_properties({"skerry.index.trace": "hash"})
    without = hashed = 0.0
    for part in lines(rows):
        without += timed(partial(plain.append, part))[0]
        hashed += timed(partial(indexed.append, part))[0]
    text, summary = timed(partial(indexed.create_index, ["message"], kind="text"))
    sizes = {index.column: index.size_bytes for index in indexed.indexes()}
    print(f"append {without:.2f} s, with the hash index {hashed:.2f} s ({hashed / without - 1:+.0%})")
    print(f"text index of all files {text:.2f} s, {summary.size_bytes / 1e6:.1f} MB")
    print(f"hash index {sizes['trace'] / 1e6:.1f} MB, {sizes['trace'] / rows:.1f} bytes a row")
    (folder / "done").touch()
    return catalog


class Peer:
    """Lance, or tantivy, in a Python of its own."""

    def __init__(self, name: str, python: str, folder: Path, files: list[str]) -> None:
        self._process = subprocess.Popen(
            [python, "-c", {"lance": LANCE, "tantivy": TANTIVY}[name]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        print(f"{name}, seconds to build: {self._ask([str(folder / name), files])}")

    def _ask(self, what: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def ask(self, kind: str, text: str) -> tuple[float, int]:
        seconds, rows = self._ask([kind, text])
        return seconds, rows

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compare(rows: int, rounds: int, lance: str | None, tantivy: str | None) -> None:
    folder = ROOT / ".cache" / f"lookup-{rows}"
    catalog = build(folder, rows)
    plain, indexed = catalog.load_table(PLAIN), catalog.load_table(INDEXED)
    files = [file.location.removeprefix("file://") for file in plain.files()]
    known = plain.scan(["trace"]).to_arrow()["trace"]
    random = np.random.default_rng(3)
    peer = Peer("lance", lance, folder, files) if lance else None
    words_peer = Peer("tantivy", tantivy, folder, files) if tantivy else None
    listed = ", ".join(f"'{file}'" for file in files)

    def by_duckdb(where: str) -> tuple[float, int]:
        seconds, found = timed(
            lambda: duckdb.sql(f"SELECT * FROM read_parquet([{listed}]) WHERE {where}").to_arrow_table()
        )
        return seconds, found.num_rows

    def by_pyarrow(where: pc.Expression) -> tuple[float, int]:
        seconds, found = timed(lambda: ds.dataset(files).to_table(filter=where))
        return seconds, found.num_rows

    def by_index(where: str) -> tuple[float, int]:
        seconds, found = timed(lambda: indexed.scan(where=where).to_arrow())
        return seconds, found.num_rows

    def by_words(query: str) -> tuple[float, int]:
        seconds, found = timed(lambda: indexed.search("message", query))
        return seconds, found.num_rows

    def ids(count: int) -> list[str]:
        return known.take(pa.array(random.choice(rows, count, replace=False))).to_pylist()

    def one() -> dict[str, tuple[float, int]]:
        (trace,) = ids(1)
        where = f"trace = '{trace}'"
        found = {
            "skerry": by_index(where),
            "duckdb": by_duckdb(where),
            "pyarrow": by_pyarrow(pc.field("trace") == trace),
        }
        return found | ({"lance": peer.ask("where", where)} if peer else {})

    def many() -> dict[str, tuple[float, int]]:
        traces = ids(MANY)
        where = f"trace IN ({', '.join(map(repr, traces))})"
        found = {"skerry": by_index(where), "duckdb": by_duckdb(where)}
        found["pyarrow"] = by_pyarrow(pc.field("trace").isin(traces))
        return found | ({"lance": peer.ask("where", where)} if peer else {})

    def words(query: str, text: str) -> Callable[[], dict[str, tuple[float, int]]]:
        def ask() -> dict[str, tuple[float, int]]:
            found = {"skerry": by_words(query), "duckdb": by_duckdb(f"message LIKE '%{text}%'")}
            found["pyarrow"] = by_pyarrow(pc.match_substring(pc.field("message"), text))
            found |= {"lance": peer.ask("words", query)} if peer and '"' not in query else {}
            return found | ({"tantivy": words_peer.ask("words", query)} if words_peer else {})

        return ask

    phrase = " ".join(known_phrase(plain))
    works = {
        "one trace id": one,
        f"{MANY} trace ids": many,
        "rare word": words("zyzzyva", "zyzzyva"),
        "word in 1 %": words("timeout", "timeout"),
        "phrase": words(f'"{phrase}"', phrase),
    }
    for name, ask in works.items():
        ask()
        found = [ask() for _ in range(rounds)]
        shown = [
            f"{who} {1000 * statistics.median(each[who][0] for each in found):.1f} ms ({found[-1][who][1]} rows)"
            for who in found[0]
        ]
        figure(name, *([each[who][0] for each in found] for who in ("skerry", "duckdb")))
        print(f"{name:14}", ", ".join(shown))
    (trace,), (other,) = (
        ids(1),
        catalog.load_table("logs.warm").scan(["trace"], limit=1).to_arrow()["trace"].to_pylist(),
    )
    command = [sys.executable, "-c", COLD, str(folder / "lake"), other, trace]
    cold = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(rounds)
    ]
    imports, _, first, used = (1000 * statistics.median(times) for times in zip(*cold, strict=True))
    figure("one trace id, first in a process", first / 1000)
    print(f"one trace id, first in a process: {first:.1f} ms ({used:.1f} of processor time), imports {imports:.1f} ms")
    before = indexed.storage.metrics.counts()
    indexed.scan(where=f"trace = '{ids(1)[0]}'").to_arrow()
    read = indexed.storage.metrics.counts() - before
    size = sum(file.file_size_bytes for file in indexed.files())
    figure("one trace id: read", read.bytes_read / 1e6, unit="MB")
    print(f"one trace id: {read.requests} reads, {read.bytes_read / 1e6:.2f} MB of {size / 1e6:.0f} MB")
    for each in (peer, words_peer):
        if each is not None:
            each.close()


def known_phrase(table: Any) -> list[str]:
    """Three words that follow each other in some line."""
    return table.scan(["message"], limit=1).to_arrow()["message"][0].as_py().split()[3:6]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lance", help="a Python that has pylance")
    parser.add_argument("--tantivy", help="a Python that has tantivy and PyArrow")
    arguments = parser.parse_args()
    compare(arguments.rows, arguments.rounds, arguments.lance, arguments.tantivy)
