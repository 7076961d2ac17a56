"""A folder of change records in immutable Parquet files, shaped as Spark's Kafka source gives a topic's records.

A file is named after the stretch of the log that it covers, `<from>-<to>.parquet`, as 16 hexadecimal digits each; the
next one begins where it ends. So the names tell how far the log has been taken, and no change is taken twice, whoever
is killed when. Files appear by renaming, whole or not at all, and get times that grow, which is the order that Spark's
file source goes by.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pgoutput import Records

__all__ = ["RECORD_SCHEMA", "RecordFile", "RecordFolder"]

RECORD_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""Columns of Spark's Kafka source; the offset is the record's place in the log."""

_HIDDEN = ".unfinished"  # Spark passes over names like this; a killed capture leaves one, the next writes over it
_NAME = re.compile(r"([0-9a-f]{16})-([0-9a-f]{16})\.parquet")


class RecordFolder:
    """The folder that one capture writes; it may be written by one process at a time.

    Args:
        folder: Where the files are; made if need be.
        topic: What the records' topic is called.

    Attributes:
        end_lsn: How far the log is covered; None if there is no file.
    """

    def __init__(self, folder: str | Path, topic: str) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._topic = topic
        self._time_ns = 0
        self.end_lsn: int | None = None
        expected = None
        for start, end, path in sorted(_stretch(path) for path in self.folder.iterdir() if _NAME.fullmatch(path.name)):
            if expected not in (None, start):
                raise ValueError(f"{self.folder}: no file goes from {expected:016x} to {start:016x}")
            expected = self.end_lsn = end
            self._time_ns = max(self._time_ns, path.stat().st_mtime_ns)

    @contextmanager
    def new_file(self) -> Iterator[RecordFile]:
        """A file that is there once `publish` is called, and else never was."""
        hidden = self.folder / _HIDDEN
        with pq.ParquetWriter(hidden, RECORD_SCHEMA, compression="zstd") as writer:
            file = RecordFile(writer, self._topic)
            yield file
        if file.end_lsn is not None:
            self._publish(hidden, file.end_lsn)

    def _publish(self, hidden: Path, end_lsn: int) -> None:
        start = 0 if self.end_lsn is None else self.end_lsn
        if end_lsn <= start:
            raise ValueError(f"{self.folder} covers the log up to {start:016x}, {end_lsn:016x} is behind that")
        self._time_ns = max(time.time_ns(), self._time_ns + 1_000_000)  # Spark looks at milliseconds
        os.utime(hidden, ns=(self._time_ns, self._time_ns))
        _flush(hidden)
        hidden.rename(self.folder / f"{start:016x}-{end_lsn:016x}.parquet")
        _flush(self.folder)
        self.end_lsn = end_lsn


class RecordFile:
    """A file that is being written.

    Attributes:
        end_lsn: Up to where it covers the log; None until that is known.
    """

    def __init__(self, writer: pq.ParquetWriter, topic: str) -> None:
        self.end_lsn: int | None = None
        self._writer = writer
        self._topic = topic

    def write(self, records: Records) -> int:
        """Write records behind those that are there, and return how many."""
        if len(records):
            self._writer.write_table(_to_arrow(records, self._topic))
        return len(records)


def _stretch(path: Path) -> tuple[int, int, Path]:
    start, end = path.stem.split("-")
    return int(start, 16), int(end, 16), path


def _to_arrow(records: Records, topic: str) -> pa.Table:
    count = len(records)
    return pa.table(
        [
            pa.array(records.keys, pa.string()).cast(pa.binary()),
            pa.array(records.values, pa.string()).cast(pa.binary()),
            pa.repeat(topic, count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.array(records.lsns, pa.int64()),
            pa.array(records.times_us, pa.int64()).cast(RECORD_SCHEMA.field("timestamp").type),
        ],
        schema=RECORD_SCHEMA,
    )


def _flush(path: Path) -> None:
    """Have the disk hold what was written, so that the log may be let go."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
