"""Tables that Spark and Iceberg's Java classes made, with the rows that were put into them.

A sample is an archive `data/<name>.tar.xz`: the files of one table as they were written, and `expected.json`, which is
made from the changes and not from the files. The metadata of a table names its files by absolute locations. Those of
the samples begin with `memory://samples/`, so that a table opens wherever its files are put into memory: no byte of
what the other engine wrote is changed. `make_foreign_samples.py` makes them.
"""

from __future__ import annotations

import datetime
import json
import math
import tarfile
import uuid
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import skerry
from skerry.catalog import Table
from skerry.storage import Storage

DATA = Path(__file__).parent / "data"
ENCRYPTED = DATA / "encrypted"
ROOT = "memory://samples"
EXPECTED = "expected.json"


@dataclass(frozen=True, slots=True)
class Sample:
    """A table in memory, and what is in it.

    Args:
        name: The table's name in the namespace `s`.
        metadata: Its newest metadata file.
        files: The locations of all its files.
        states: Rows by state: a snapshot's id, `branch:<name>`, `tag:<name>`, or `current`.
        lineage: By the same keys, `[_row_id, _last_updated_sequence_number]` of every row, in the order of the rows.
    """

    name: str
    metadata: str
    files: tuple[str, ...]
    states: dict[str, list[dict[str, Any]]]
    lineage: dict[str, list[list[int]]]

    def open(self, warehouse: Path) -> Table:
        """The table, registered in a catalog of its own."""
        return skerry.connect(warehouse).register_table(f"s.{self.name}", self.metadata)


def sample_names() -> list[str]:
    """All samples there are."""
    return sorted(path.name.removesuffix(".tar.xz") for path in DATA.glob("*.tar.xz"))


def unpack(name: str) -> Sample:
    """Put a sample's files into memory, over what may be there."""
    storage = Storage()
    files = {}
    with tarfile.open(DATA / f"{name}.tar.xz") as archive:
        for member in archive:
            files[member.name] = archive.extractfile(member).read()
    expected = json.loads(files.pop(EXPECTED))
    for path, data in files.items():
        storage.write(f"{ROOT}/{path}", data, overwrite=True)
    locations = tuple(f"{ROOT}/{path}" for path in files)
    return Sample(name, expected["metadata"], locations, expected["states"], expected["lineage"])


def plain_rows(table: pa.Table, key: str = "id") -> list[dict[str, Any]]:
    """Rows as JSON has them, in the order of a column."""
    columns = [_without_nanoseconds(column) for column in table.columns]
    rows = pa.table(columns, names=table.column_names).to_pylist()
    return sorted((plain(row) for row in rows), key=lambda row: row[key])


def _without_nanoseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Nanoseconds as numbers: Python's own timestamps have none."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) and column.type.unit == "ns" else column


def plain(value: Any) -> Any:
    """A Python value as JSON has it; maps are lists of pairs."""
    match value:
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case bytes() | bytearray():
            return "0x" + value.hex()
        case uuid.UUID():
            return "0x" + value.bytes.hex()
        case float() if not math.isfinite(value):
            return str(value)
        case Decimal():
            return str(value)
        case datetime.datetime() if value.tzinfo is not None:
            return value.astimezone(datetime.UTC).isoformat()
        case datetime.date() | datetime.time():
            return value.isoformat()
    return value
