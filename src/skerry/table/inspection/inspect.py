"""The metadata of a table as Arrow tables: one documented class, which every table format implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar, Final, NoReturn

import pyarrow as pa

from skerry.arguments import check_instance, check_list
from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.table.inspection.columns import PROPERTIES
from skerry.table.rows.row_stream import BoundedStream
from skerry.table.rows.schema import nearest

__all__ = ["METADATA_TABLES", "Inspect", "RowRequest", "properties_table", "rows_table"]

_OF_ONE_SNAPSHOT: Final = ("files", "entries", "manifests", "partitions", "position_deletes")
METADATA_TABLES: Final = (
    "snapshots",
    "history",
    "refs",
    "properties",
    "metadata_log",
    "statistics",
    "all_files",
    *_OF_ONE_SNAPSHOT,
)
"""The names of the metadata tables of every format: of the methods of `Inspect`, and after `$` in SQL."""


@dataclass(frozen=True, slots=True)
class RowRequest:
    """Which rows of a metadata table are wanted: the arguments of `Inspect.rows`."""

    columns: tuple[str, ...] | None = None
    where: str | None = None
    limit: int | None = None
    snapshot: int | None = None
    ref: str | None = None


class Inspect(ABC):
    """A table's metadata as Arrow tables; made by `Table.inspect`.

    Columns are named and typed as in Iceberg's metadata tables, in both formats where they mean the same;
    docs/inspect.md lists them. `snapshot=` and `ref=` choose whose files are shown: of the current snapshot if neither
    is given. `columns=` names the columns wanted; what the others need is not read.

    Every method raises FormatError if metadata is corrupt, NotFoundError if there is no such snapshot or reference,
    SchemaError if an argument does not fit, and UnsupportedError if the format does not have the table.

    Example:
        table.inspect.files(columns=["file_path", "record_count"])

    Spec: Iceberg documentation, Inspecting tables; Paimon documentation, System Tables.
    """

    # ---- the table ----

    def snapshots(self) -> pa.Table:
        """The snapshots that have not expired, oldest first: when, which, on which, what they did, their summaries."""
        return self.read("snapshots")

    def history(self) -> pa.Table:
        """When which snapshot became the current one, and whether the current one builds on it."""
        return self.read("history")

    def refs(self) -> pa.Table:
        """Branches and tags, with what they hold on to."""
        return self.read("refs")

    def properties(self) -> pa.Table:
        """The table properties: `key`, `value`."""
        return self.read("properties")

    def metadata_log(self) -> pa.Table:
        """The metadata files that the table remembers, oldest first, the current one last (Iceberg)."""
        return self.read("metadata_log")

    def statistics(self) -> pa.Table:
        """What the statistics files of the snapshots contain: a row per blob, with its columns and its properties."""
        return self.read("statistics")

    # ---- files ----

    def files(
        self, *, snapshot: int | None = None, ref: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The data and delete files of a snapshot, with their metrics; `readable_metrics` has counts and typed bounds.

        Args:
            snapshot: Of this snapshot.
            ref: Of the tip of this branch or tag.
            columns: The columns wanted; all if None. Manifests are decoded only as far as these need.
        """
        return self.read("files", snapshot=snapshot, ref=ref, columns=columns)

    def all_files(self, *, columns: Sequence[str] | None = None) -> pa.Table:
        """The files that any snapshot, branch or tag needs, each once; see `files`."""
        return self.read("all_files", columns=columns)

    def entries(
        self, *, snapshot: int | None = None, ref: str | None = None, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """The entries of a snapshot's manifests, deleted ones included; see `files` for the arguments.

        `status` is 0 for files that were there before, 1 for added, 2 for deleted ones.
        """
        return self.read("entries", snapshot=snapshot, ref=ref, columns=columns)

    def manifests(self, *, snapshot: int | None = None, ref: str | None = None) -> pa.Table:
        """The manifests of a snapshot, with their counts of files and summaries of their partitions."""
        return self.read("manifests", snapshot=snapshot, ref=ref)

    def partitions(self, *, snapshot: int | None = None, ref: str | None = None) -> pa.Table:
        """The partitions of a snapshot, with their counts of files, rows, bytes and deletes."""
        return self.read("partitions", snapshot=snapshot, ref=ref)

    def position_deletes(self, *, snapshot: int | None = None, ref: str | None = None) -> pa.Table:
        """The positions of rows that delete files and deletion vectors delete: a row each. Delete files are read."""
        return self.read("position_deletes", snapshot=snapshot, ref=ref)

    # ---- by name ----

    def __repr__(self) -> str:
        return f"metadata tables: {', '.join(self.names)}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the metadata tables that the table's format has; docs/inspect.md lists them."""
        return (*METADATA_TABLES, *self._own_tables)

    def schema(self, name: str) -> pa.Schema:
        """The columns of a metadata table, without reading it.

        Args:
            name: One of `names`.
        """
        check_instance("name", name, str, "the name of a metadata table")
        if name not in self.names:
            raise NotFoundError(f"no metadata table {name!r}{nearest(name, self.names)}")
        return pa.schema(self._fields(name))

    def read(
        self,
        name: str,
        *,
        snapshot: int | None = None,
        ref: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """A metadata table by its name; the methods of these names say what they contain.

        Args:
            name: One of `names`.
            snapshot: Of this snapshot.
            ref: Of the tip of this branch or tag.
            columns: The columns wanted, in that order; all if None.
        """
        wanted = self._checked(name, snapshot, ref, columns)
        if name in self._row_tables:
            return self._rows(name, RowRequest(tuple(wanted), snapshot=snapshot, ref=ref)).to_arrow()
        return self._read(name, tuple(dict.fromkeys(wanted)), snapshot, ref).select(wanted)

    def rows(
        self,
        name: str,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        limit: int | None = None,
        snapshot: int | None = None,
        ref: str | None = None,
    ) -> BoundedStream:
        """The rows of a metadata table as a stream, for those that consist of the table's own rows (Paimon).

        Args:
            name: `audit_log`, `binlog`, `read_optimized` or `ro`, `row_tracking`.
            columns: The columns wanted, in that order; all if None.
            where: SQL text; decides which files are read.
            limit: At most this many rows.
            snapshot: Of this snapshot.
            ref: Of the tip of this branch or tag.
        """
        wanted = self._checked(name, snapshot, ref, columns)
        return self._rows(name, RowRequest(tuple(wanted), where, limit, snapshot, ref))

    def has_rows(self, name: str) -> bool:
        """Whether a metadata table consists of the table's own rows, which `rows` reads as a stream."""
        return name in self._row_tables

    def _checked(
        self, name: str, snapshot: int | None, ref: str | None, columns: Sequence[str] | None
    ) -> Sequence[str]:
        """The columns wanted, after checks of all arguments."""
        schema = self.schema(name)
        if snapshot is not None and (not isinstance(snapshot, Integral) or isinstance(snapshot, bool)):
            raise SchemaError(f"snapshot takes the number of a snapshot, found {type(snapshot).__name__}: {snapshot!r}")
        if ref is not None:
            check_instance("ref", ref, str, "the name of a branch or tag")
        if snapshot is not None and ref is not None:
            raise SchemaError("only one of snapshot and ref can be given")
        of_one_snapshot = name in _OF_ONE_SNAPSHOT or self._own_tables.get(name, False)
        if not of_one_snapshot and (snapshot is not None or ref is not None):
            raise SchemaError(f"{name} is about the whole table: it takes neither snapshot nor ref")
        check_list("columns", columns)
        wanted: Sequence[str] = schema.names if columns is None else list(columns)
        for column in wanted:
            if column not in schema.names:
                raise SchemaError(f"{name} has no column {column!r}{nearest(column, schema.names)}")
        return wanted

    # ---- what table formats implement ----

    _own_tables: ClassVar[Mapping[str, bool]] = {}
    """Metadata tables that only this format has, and whether they are of one snapshot."""
    _row_tables: ClassVar[Sequence[str]] = ()
    """Those of them that consist of the table's rows."""

    @property
    @abstractmethod
    def _format(self) -> str:
        """The table format."""

    @abstractmethod
    def _fields(self, name: str) -> Iterable[pa.Field]:
        """The columns of a metadata table.

        Raises:
            UnsupportedError: The format does not have it.
        """

    @abstractmethod
    def _read(self, name: str, columns: tuple[str, ...], snapshot: int | None, ref: str | None) -> pa.Table:
        """A metadata table, with these columns at least."""

    def _rows(self, name: str, request: RowRequest) -> BoundedStream:
        """A metadata table of rows; most tables are none.

        Raises:
            SchemaError: It is a table of metadata.
        """
        raise SchemaError(f"{name} does not consist of the table's rows: read({name!r}) gives it")

    def _lacks(self, what: str, instead: str) -> NoReturn:
        raise UnsupportedError(f"{self._format.capitalize()} tables have no {what}: {instead}")


def properties_table(properties: Mapping[str, str]) -> pa.Table:
    """The rows of `properties`."""
    return rows_table(sorted(properties.items()), PROPERTIES)


def rows_table(rows: Sequence[tuple[object, ...]], fields: Sequence[pa.Field]) -> pa.Table:
    """Rows of plain values as a table.

    Raises:
        FormatError: A value, which metadata contains, is outside its column's type.
    """
    columns = zip(*rows, strict=True) if rows else [() for _ in fields]
    arrays = []
    for column, field in zip(columns, fields, strict=True):
        try:
            arrays.append(pa.array(list(column), field.type))
        except (OverflowError, pa.ArrowException) as error:
            raise FormatError(f"{field.name} has a value that does not fit {field.type}: {error}") from error
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
