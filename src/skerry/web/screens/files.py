"""The files of a table: its partitions by size, the sizes of its files, and each file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from skerry.markup import Column, Html, definitions, element, join, table
from skerry.markup.plots import Area, share_bar, treemap
from skerry.table.table import Table
from skerry.web.clustering import Overlap, overlap_of, show_overlap
from skerry.web.later import Later
from skerry.web.listing import FileListing, files_key, list_files
from skerry.web.query import Query, address
from skerry.web.source import Source
from skerry.web.values import count, pages, percent, size

__all__ = ["LATER", "FileLine", "FilesPage", "PartitionLine", "read_files", "show_files"]

_PER_PAGE: Final = 100
_METADATA: Final = 200
_PARTITIONS: Final = 400
"""Partitions in a treemap; the smaller ones are one area."""
_CONTENTS: Final = ("data", "positions", "keys")
_SORTS: Final = ("size", "rows", "path")
_Rows: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """A partition: its name, data files, their bytes and rows, and the deletes that apply to it."""

    partition: str
    files: int
    size_bytes: int
    rows: int
    deletes: int


@dataclass(frozen=True, slots=True)
class FileLine:
    """A file: its path below the table's folder or its location, what it holds, its partition, rows and bytes."""

    path: str
    content: str
    format: str
    partition: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class MetadataFile:
    """A file of metadata: what it is, its path below the table's folder or its location, and its bytes."""

    kind: str
    path: str
    size_bytes: int | None


@dataclass(frozen=True, slots=True)
class FilesPage:
    """The files of a snapshot.

    Args:
        snapshot_id: The snapshot.
        data_files: Data files.
        delete_files: Delete files and deletion vectors.
        size_bytes: The size of all.
        rows: Rows in data files.
        deletes: Deletes in the others.
        partitions: The largest partitions.
        partition_count: How many partitions there are.
        sizes: How many data files there are of less than each number of bytes, and not of less than the one before.
        files: The files of this page.
        found: How many files match.
        metadata: The newest metadata file, and manifests, indexes and statistics of the snapshot; at most 200.
        overlap: How much data files overlap in the column that was asked for.
    """

    snapshot_id: int | None
    data_files: int
    delete_files: int
    size_bytes: int
    rows: int
    deletes: int
    partitions: list[PartitionLine]
    partition_count: int
    sizes: list[tuple[int, int]]
    files: list[FileLine]
    found: int
    metadata: list[MetadataFile]
    overlap: Overlap | None = None


def read_files(source: Source, query: Query) -> FilesPage:
    """The files of the current snapshot; a page of those of one partition, or of all."""
    opened = source.table(query.table)
    listing = list_files(source, opened)
    snapshot = opened.current_snapshot()
    is_data = listing.content == 0
    rows = _chosen(listing, query)
    first = query.number("page") * _PER_PAGE
    key = f"{opened.location} {opened.version}"
    sort, last = query.one_of("sort", *_SORTS), first + _PER_PAGE
    ordered = _ordered(source, key, listing, rows, sort, last)[first:last]
    return FilesPage(
        snapshot_id=None if snapshot is None else snapshot.snapshot_id,
        data_files=int(is_data.sum()),
        delete_files=int((~is_data).sum()),
        size_bytes=int(listing.sizes.sum()),
        rows=int(listing.rows[is_data].sum()),
        deletes=int(listing.rows[~is_data].sum()),
        partitions=_partitions(listing),
        partition_count=len(listing.partitions),
        sizes=_sizes(listing.sizes[is_data]),
        files=_lines(listing, ordered, opened.location),
        found=len(rows),
        metadata=source.remember(("metadata", opened.location, opened.version), lambda: _metadata(opened)),
        overlap=_overlap(source, opened, query.text("column"), int(is_data.sum())),
    )


def _overlap(source: Source, opened: Table, column: str, data_files: int) -> Overlap | None:
    """The overlap in a column; None if none was asked for."""
    if not column:
        return None
    key = ("overlap", opened.location, opened.version, column)
    return source.remember(key, lambda: overlap_of(opened, column, data_files))


def _metadata(opened: Table) -> list[MetadataFile]:
    """The files that lead to the data files."""
    inspect, prefix = opened.inspect, opened.location.rstrip("/") + "/"
    found = [MetadataFile("metadata", opened.metadata_location.removeprefix(prefix), None)]
    for row in inspect.manifests().select(["path", "length"]).slice(0, _METADATA).to_pylist():
        found.append(MetadataFile("manifest", row["path"].removeprefix(prefix), row["length"]))
    snapshot = opened.current_snapshot()
    statistics = inspect.statistics().select(["snapshot_id", "statistics_path", "file_size_in_bytes"])
    for row in statistics.group_by(statistics.column_names, use_threads=False).aggregate([]).to_pylist():
        if snapshot is not None and row["snapshot_id"] == snapshot.snapshot_id:
            path = row["statistics_path"].removeprefix(prefix)
            found.append(MetadataFile("statistics", path, row["file_size_in_bytes"]))
    if "table_indexes" in inspect.names:
        for row in inspect.read("table_indexes").slice(0, _METADATA).to_pylist():
            found.append(MetadataFile("index", f"index/{row['file_name']}", row["file_size"]))
    return found[:_METADATA]


def _chosen(listing: FileListing, query: Query) -> _Rows:
    """int64[n] Which files are asked for."""
    wanted = query.parameters.get("partition")
    chosen = np.ones(len(listing.sizes), np.bool_)
    if wanted is not None:
        numbers = [number for number, name in enumerate(listing.partitions) if name == wanted]
        chosen &= np.isin(listing.groups, numbers)
    if text := query.text("q"):
        chosen &= pc.match_substring(listing.files.column("file_path"), text).to_numpy()
    return np.flatnonzero(chosen)


def _ordered(source: Source, key: str, listing: FileListing, rows: _Rows, by: str, most: int) -> _Rows:
    """The first files in an order: the largest, those with the most rows, or by path."""
    if by == "path":
        values = -source.remember(("ranks", key), lambda: _path_ranks(listing))[rows]
    else:
        values = listing.sizes[rows] if by == "size" else listing.rows[rows]
    if len(rows) > most:
        first = np.argpartition(-values, most - 1)[:most]
        rows, values = rows[first], values[first]
    return rows[np.lexsort((rows, -values))]


def _path_ranks(listing: FileListing) -> _Rows:
    """int64[files] The place of each file among all by its path."""
    order = pc.sort_indices(listing.files, [("file_path", "ascending")]).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def _partitions(listing: FileListing) -> list[PartitionLine]:
    """The largest partitions, by the bytes of their data files."""
    number, is_data = len(listing.partitions), listing.content == 0

    def sums(values: _Rows, chosen: _Rows) -> _Rows:
        total = np.zeros(number, np.int64)
        np.add.at(total, listing.groups[chosen], values[chosen])
        return total

    files = np.bincount(listing.groups[is_data], minlength=number)
    sizes, rows, deletes = sums(listing.sizes, is_data), sums(listing.rows, is_data), sums(listing.rows, ~is_data)
    largest = np.argsort(-sizes, kind="stable")[:_PARTITIONS]
    return [
        PartitionLine(listing.partitions[each], int(files[each]), int(sizes[each]), int(rows[each]), int(deletes[each]))
        for each in largest.tolist()
    ]


def _sizes(sizes: _Rows) -> list[tuple[int, int]]:
    """Counts of files by size, a step for each doubling."""
    if not len(sizes):
        return []
    powers = np.ceil(np.log2(np.maximum(sizes, 1) + 1)).astype(np.int64)
    counts = np.bincount(powers)
    first = int(np.flatnonzero(counts)[0])
    return [(1 << power, int(counts[power])) for power in range(first, len(counts))]


def _lines(listing: FileListing, rows: _Rows, folder: str) -> list[FileLine]:
    prefix = folder.rstrip("/") + "/"
    taken = listing.files.take(rows)
    return [
        FileLine(
            path=path.removeprefix(prefix),
            content=_CONTENTS[content] if 0 <= content < len(_CONTENTS) else str(content),
            format=format_.lower(),
            partition=listing.partitions[group],
            rows=records,
            size_bytes=size_bytes,
        )
        for path, content, format_, group, records, size_bytes in zip(
            taken.column("file_path").to_pylist(),
            listing.content[rows].tolist(),
            taken.column("file_format").to_pylist(),
            listing.groups[rows].tolist(),
            listing.rows[rows].tolist(),
            listing.sizes[rows].tolist(),
            strict=True,
        )
    ]


# ---- showing ----


def show_files(found: FilesPage, query: Query) -> Html:
    """Partitions as areas, sizes as bars, files as a table."""
    return join(_head(query), _rest(found, query))


def _head(query: Query) -> Html:
    return element("div", element("h1", "Files"), class_="title")


def _rest(found: FilesPage, query: Query) -> Html:
    has_deletes = found.delete_files > 0
    facts = definitions(
        {
            "data files": count(found.data_files),
            "size": size(found.size_bytes),
            "rows": count(found.rows),
            "delete files": count(found.delete_files) if has_deletes else None,
            "deletes": count(found.deletes) if has_deletes else None,
        }
    )
    return join(
        element("div", facts, class_="facts"),
        _treemap(found, query),
        _size_bars(found),
        show_overlap(found.overlap, query),
        _table(found, query),
        _metadata_table(found, query),
    )


LATER: Final = Later(lambda opened, query: files_key(opened), _head, _rest)


def _metadata_table(found: FilesPage, query: Query) -> Html:
    columns = [
        Column[MetadataFile](
            "file",
            lambda line: element("a", line.path, href=address("/file", t=query.table, path=line.path), class_="path"),
        ),
        Column[MetadataFile]("kind", lambda line: line.kind),
        Column[MetadataFile]("size", lambda line: size(line.size_bytes), right=True),
    ]
    return element("section", element("h2", "Metadata"), table(found.metadata, columns, caption="metadata files"))


def _treemap(found: FilesPage, query: Query) -> Html | None:
    if found.partition_count < 2:
        return None
    areas = []
    for line in found.partitions:
        share = line.deletes / line.rows if line.rows else 0.0
        title = f"{line.partition}: {size(line.size_bytes)} in {count(line.files)} files, {count(line.rows)} rows"
        if line.deletes:
            title += f", {count(line.deletes)} deletes ({percent(share)})"
        areas.append(
            Area(
                line.partition,
                title,
                line.size_bytes,
                min(1.0, 3 * share),
                address("/files", t=query.table, partition=line.partition),
            )
        )
    shown = (
        f"the largest {len(areas):,} of {found.partition_count:,}"
        if found.partition_count > len(areas)
        else f"{len(areas):,}"
    )
    return element(
        "section",
        element("h2", f"Partitions by size, {shown}", element("span", "the redder, the more deletes", class_="dim")),
        treemap([area for area in areas if area.size > 0], title="partitions by size"),
    )


def _size_bars(found: FilesPage) -> Html | None:
    if not found.sizes:
        return None
    most = max(number for _, number in found.sizes)
    bars = [
        element(
            "li",
            element("span", count(number), class_="n"),
            share_bar(number / most, f"{count(number)} files of less than {size(limit)}"),
            element("span", f"< {size(limit)}", class_="dim"),
        )
        for limit, number in found.sizes
    ]
    return element("section", element("h2", "Data files by size"), element("ul", bars, class_="sizes"))


def _table(found: FilesPage, query: Query) -> Html:
    largest = max((line.size_bytes for line in found.files), default=1)
    sort = query.one_of("sort", *_SORTS)
    columns = [
        Column[FileLine](
            "file",
            lambda line: element("a", line.path, href=address("/file", t=query.table, path=line.path), class_="path"),
        ),
        Column[FileLine]("holds", lambda line: line.content),
        Column[FileLine]("format", lambda line: line.format),
        Column[FileLine]("rows", lambda line: count(line.rows), right=True),
        Column[FileLine]("size", lambda line: size(line.size_bytes), right=True),
        Column[FileLine]("", lambda line: share_bar(line.size_bytes / max(largest, 1), size(line.size_bytes))),
    ]
    chosen = query.parameters.get("partition")
    heading = element(
        "h2",
        f"Files of {chosen}" if chosen else "All files",
        element("span", f"{found.found:,}", class_="dim"),
        element("a", "all partitions", href=query.with_(partition=None, page=None)) if chosen else None,
        element(
            "span",
            "by ",
            [
                element(
                    "a", each, href=query.with_(sort=each, page=None), aria_current="true" if each == sort else None
                )
                for each in _SORTS
            ],
            class_="choices",
        ),
    )
    return element(
        "section",
        heading,
        table(found.files, columns, caption="files", empty="no files"),
        pages(lambda number: query.with_(page=number), query.number("page"), _PER_PAGE, found.found, "files"),
    )
