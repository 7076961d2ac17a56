"""Paimon's other readers and writers, for tests: pypaimon in a process of its own, Paimon Java in Spark's JVM."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

PAIMON_BUNDLE = "org.apache.paimon:paimon-bundle:1.4.2"
PEERS = Path(__file__).parent / "peers"
PYTHON = Path(__file__).parents[2] / ".venv-pypaimon" / "bin" / "python"


class PyPaimon:
    """pypaimon 2.1, which needs an old PyArrow and so an environment of its own (`make peers`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._log = (folder / "pypaimon.log").open("w")
        self._process = subprocess.Popen(
            [PYTHON, PEERS / "pypaimon_driver.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def read(
        self,
        path: str | Path,
        *,
        branch: str | None = None,
        options: Mapping[str, str] | None = None,
        equal: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        out = self._folder / "rows.arrow"
        how = {"branch": branch, "options": dict(options or {}), "equal": dict(equal or {})}
        self._call(do="read", path=str(path), out=str(out), **how)
        with pa.ipc.open_file(out.read_bytes()) as reader:
            return reader.read_all()

    def write(self, path: str | Path, rows: pa.Table, *, overwrite: Mapping[str, Any] | None = None) -> None:
        data = self._folder / "data.arrow"
        with pa.ipc.new_file(data, rows.schema) as writer:
            writer.write_table(rows)
        how = {} if overwrite is None else {"overwrite": dict(overwrite)}
        self._call(do="write", path=str(path), data=str(data), **how)

    def index(self, path: str | Path, column: str) -> None:
        """Build a b-tree global index for the rows that have none."""
        self._call(do="index", path=str(path), column=column)

    def catalog(self, options: Mapping[str, str], *commands: Sequence[Any]) -> list[Any]:
        """What a catalog answers to commands such as `("tables", "ns")`; rows as lists."""
        return self._call(do="catalog", options=dict(options), commands=list(commands))["found"]

    def _call(self, **command: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        reply = json.loads(self._process.stdout.readline() or '{"ok": false, "error": "pypaimon has died"}')
        if not reply["ok"]:
            raise RuntimeError(reply["error"])
        return reply

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(300)
        self._log.close()


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.setSourceVersion(11)
    compiler.setTargetVersion(11)
    compiler.cook((PEERS / "JavaPaimon.java").read_text())
    return compiler.getClassLoader().loadClass("JavaPaimon")


class JavaPaimon:
    """Paimon Java 1.4.2; rows are given and taken as Python lists, in the order of the table's columns."""

    def __init__(self, spark: Any, folder: Path) -> None:
        jvm = spark._jvm
        # once in a JVM: Py4J remembers methods by the name of their class, and takes those of another one of that name
        made = vars(spark.sparkContext).get("_java_paimon") or _compiled(jvm)
        spark.sparkContext._java_paimon = made
        parameters = spark.sparkContext._gateway.new_array(jvm.java.lang.Class, 1)
        parameters[0] = jvm.java.lang.Class.forName("java.lang.String")
        arguments = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)
        arguments[0] = str(folder)
        self._java = made.getConstructor(parameters).newInstance(arguments)
        self._commits = 0

    def read(
        self,
        path: str | Path,
        *,
        branch: str | None = None,
        options: Mapping[str, str] | None = None,
        equal: Mapping[str, Any] | None = None,
    ) -> list[list[Any]]:
        """The rows, or those with some values, None for nulls; a row that a reader gives as deleted is an error."""
        wanted = {name: java_value(value) for name, value in (equal or {}).items()}
        text = self._java.read(str(path), branch, json.dumps(dict(options or {})), json.dumps(wanted))
        lines = text.splitlines()
        rows = [json.loads(line) for line in lines]
        assert all(row[0] in ("+I", "+U") for row in rows), "Paimon Java sees deleted rows"
        return [row[1:] for row in rows]

    def system(self, path: str | Path, name: str) -> list[dict[str, Any]]:
        """The rows of a system table such as `files`."""
        names, *rows = [json.loads(line) for line in self._java.system(str(path), name).splitlines()]
        return [dict(zip(names, row[1:], strict=True)) for row in rows]

    def changelog(self, path: str | Path, start: int = 1) -> list[list[Any]]:
        """Snapshot id, kind and values of every change."""
        return [json.loads(line) for line in self._java.changelog(str(path), start).splitlines()]

    def write(
        self,
        path: str | Path,
        rows: Sequence[Sequence[Any]],
        *,
        kinds: Sequence[str] | None = None,
        compaction: str | None = None,
        overwrite: Mapping[str, str] | None = None,
        branch: str | None = None,
    ) -> None:
        """Commit rows, and compact `some` or `full` with them."""
        self._commits += 1
        told = [
            [kind, [java_value(value) for value in row]]
            for kind, row in zip(kinds or ["+I"] * len(rows), rows, strict=True)
        ]
        replaced = None if overwrite is None else json.dumps(dict(overwrite))
        changelog_rows = json.dumps(told)
        self._java.write(str(path), branch, f"java-{id(self)}", self._commits, changelog_rows, compaction, replaced)

    def catalog(self, options: Mapping[str, str], *commands: Sequence[Any]) -> list[Any]:
        """What a catalog answers to commands such as `("tables", "ns")`; rows as `read` gives them."""
        text = self._java.catalog(json.dumps(dict(options)), json.dumps(list(commands)))
        found = [json.loads(line) for line in text.splitlines()]
        for number, command in enumerate(commands):
            if command[0] == "read":
                found[number] = [json.loads(line)[1:] for line in found[number].splitlines()]
        return found

    def index(self, path: str | Path, column: str) -> None:
        """Build a b-tree global index for the rows that have none."""
        self._java.index(str(path), column)

    def stitch(self, path: str | Path) -> None:
        """Compact a table whose files have columns of the same rows."""
        self._java.stitch(str(path))

    def join(self, path: str | Path) -> None:
        """Compact all files of each partition of an append table into one."""
        self._java.join(str(path))

    def statistics(self, path: str | Path) -> dict[str, Any] | None:
        text = self._java.statistics(str(path))
        return None if text is None else json.loads(text)

    def expire_by_options(self, path: str | Path) -> None:
        self._java.expireByOptions(str(path))

    def expire(self, path: str | Path, retained: int) -> int:
        return self._java.expire(str(path), retained)


def java_value(value: Any) -> Any:
    """A Python value as the Java peer writes it: in JSON, with days, milliseconds and [millis, nanos] for time."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
    if isinstance(value, datetime.datetime):
        since = value.replace(tzinfo=datetime.UTC) - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        micros = since // datetime.timedelta(microseconds=1)
        return [micros // 1000, micros % 1000 * 1000]
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000
    if isinstance(value, (list, tuple)):
        return [java_value(element) for element in value]
    if isinstance(value, dict):
        return [java_value(element) for element in value.values()]
    return value


def java_rows(rows: pa.Table) -> list[list[Any]]:
    """An Arrow table's rows as the Java peer writes them."""
    return [[java_value(value) for value in row.values()] for row in rows.to_pylist()]
