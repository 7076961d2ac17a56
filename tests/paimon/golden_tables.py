"""Tables that Paimon's own writers wrote, and how their rows are compared with what they must be."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from skerry.paimon.metadata.state import PaimonState, load_state
from skerry.storage import Storage

SHIPPED = Path(__file__).parent / "data"
SHARED = Path(__file__).parents[3] / "shared" / "golden" / "paimon"


@dataclass(frozen=True)
class GoldenTable:
    """A table and what it must read as."""

    name: str
    folder: Path

    @cached_property
    def case(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "case.json").read_text()))

    @property
    def location(self) -> str:
        return str(self.folder / "table")

    def state(self) -> PaimonState:
        return load_state(Storage(), self.location)

    @property
    def versions(self) -> list[tuple[str, dict[str, Any]]]:
        """Files of expected rows with what a scan must be asked for to read the same."""
        found: list[tuple[str, dict[str, Any]]] = [("expected.parquet", {})]
        found += [(f"history/snapshot-{number}.parquet", {"snapshot": number}) for number in self.case["snapshots"]]
        found += [(f"history/tag-{tag}.parquet", {"ref": tag}) for tag in self.case["tags"]]
        found += [(f"history/branch-{branch}.parquet", {"ref": branch}) for branch in self.case["branches"]]
        return found

    def expected(self, file: str) -> pa.Table:
        return pq.read_table(self.folder / file)

    def rows(self, table: pa.Table) -> list[str]:
        """The rows of a table as a multiset."""
        return sorted_rows(table, self.case["unorderedListColumns"])


def golden_tables() -> list[GoldenTable]:
    """The shipped tables, and all others where they are at hand."""
    folders: dict[str, Path] = {}
    for root in (SHIPPED, SHARED):
        for path in sorted(root.glob("*/case.json")):
            folders.setdefault(path.parent.name, path.parent)
    return [GoldenTable(name, folder) for name, folder in folders.items()]


def sorted_rows(table: pa.Table, unordered: Collection[str] = ()) -> list[str]:
    """Rows as texts that are the same for the same values; the entries of maps, and of some lists, in any order."""
    columns = []
    for name in table.column_names:
        column = table.column(name)
        if pa.types.is_timestamp(column.type):  # Python knows no nanoseconds
            unit = pa.timestamp("ns", column.type.tz)
            column = column.cast(unit).cast(pa.int64()) if column.type.unit in ("s", "ms", "ns") else column
        columns.append([_text(value, name in unordered) for value in column.to_pylist()])
    return sorted(map(repr, zip(*columns, strict=True))) if columns else ["()"] * table.num_rows


def _text(value: Any, is_unordered: bool = False) -> str:
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(entry, tuple) for entry in value)
        texts = [_text(element) for element in value]
        return repr(sorted(texts) if is_map or is_unordered else texts)
    if isinstance(value, tuple):
        return repr(tuple(map(_text, value)))
    if isinstance(value, dict):
        return repr({key: _text(member) for key, member in value.items()})
    return "NaN" if value != value else repr(value)
