"""Searching a column for words: candidates by text indexes, then the values themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from skerry.bitmaps.position_sets import intersection
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.bucket_sections import keeps_values
from skerry.paimon.planning.splits import Section, Split, SplitFile
from skerry.paimon.planning.table_indexes import file_columns, known_indexes
from skerry.paimon.reading.fallback_scan import scan
from skerry.table.arguments import SearchOptions
from skerry.table.files.data_file import DataFile
from skerry.table.indexes.finding import TableIndexes
from skerry.table.indexes.word_search import WordSearch

__all__ = ["search", "search_count"]


def search(state: PaimonState, options: SearchOptions) -> pa.Table:
    """Find rows by words; see `skerry.table.searchable.SearchableTable.search`."""
    wanted = scan(state, options.columns, options.where, snapshot=options.snapshot).schema
    words, found = _found(state, options, wanted)
    return words.table(found, wanted, options.limit)


def search_count(state: PaimonState, options: SearchOptions) -> int:
    """Count rows by words; see `skerry.table.searchable.SearchableTable.search_count`."""
    return sum(batch.num_rows for batch in _found(state, options, pa.schema([]))[1])


def _found(
    state: PaimonState, options: SearchOptions, wanted: pa.Schema
) -> tuple[WordSearch, Iterator[pa.RecordBatch]]:
    """The rows that match, with some columns at least."""
    searched = scan(state, None, options.where, snapshot=options.snapshot, threads=options.threads)
    words = WordSearch.of(searched.schema, state.properties, options.column, options.query)
    indexes = known_indexes(state)

    def found() -> Iterator[pa.RecordBatch]:
        for reader, splits in searched.reads():
            narrowing = _Narrowing(reader.state, indexes, words)
            left = (split for split in map(narrowing.split, _newest_first(splits)) if split.sections)
            yield from replace(reader, columns=words.read_schema(wanted)).batches(left)

    return words, map(words.matching, found())


def _newest_first(splits: Sequence[Split]) -> Iterator[Split]:
    """The sections of splits, each as a split, in the opposite order of the manifests."""
    for split in reversed(splits):
        for section in reversed(split.sections):
            yield replace(split, sections=(section,))


@dataclass(frozen=True)
class _Narrowing:
    """Leaves out what has none of the words by the indexes.

    Args:
        state: The branch that is read.
        indexes: The indexes.
        words: The words.
    """

    state: PaimonState
    indexes: TableIndexes
    words: WordSearch

    def split(self, split: Split) -> Split:
        """The sections of a split that may have a row."""
        sections = (self._section(section) for section in split.sections)
        return replace(split, sections=tuple(section for section in sections if section is not None))

    def _section(self, section: Section) -> Section | None:
        if section.is_stitched:
            return section
        if section.is_raw:
            runs = (tuple(file for file in map(self._file, run) if file is not None) for run in section.runs)
            left = tuple(run for run in runs if run)
            return replace(section, runs=left) if left else None
        is_needed = not keeps_values(self.state.options) or any(self._file(file) for file in section.files)
        return section if is_needed else None

    def _file(self, file: SplitFile) -> SplitFile | None:
        """A file with the rows that may have the words; None if none has."""
        names = file_columns(self.state.schema, self.state.schema_by_id(file.schema_id))
        described = DataFile(file.location, file.file_format, file.row_count, file.file_size)
        words = self.words
        rows = self.indexes.rows(described, [words.condition], names)
        if rows is None:
            return file
        if file.rows is not None:
            rows = intersection(file.rows, rows)
        return replace(file, rows=rows) if len(rows) else None
