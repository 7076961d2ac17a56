"""Pruning by global indexes: rows that a b-tree does not find need not be read.

Spec: docs/formats/paimon.md § 5.6, § 12.8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from skerry.bitmaps.position_sets import union
from skerry.errors import UnsupportedError
from skerry.paimon.file_index.btree import TYPE, BTreeIndex, KeyRange, can_index, decode_index_meta
from skerry.paimon.file_index.keys import as_key
from skerry.paimon.manifests.index_manifest import IndexManifestEntry, read_index_manifest
from skerry.paimon.metadata.snapshot import Snapshot
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.vector_locations import index_locations
from skerry.paimon.values.byte_spans import Longs
from skerry.paimon.values.types import AtomicType
from skerry.table.predicate import Comparison, In, IsNull, Operator, Predicate

__all__ = ["CoveredRows", "RowIdPruner"]


@dataclass(frozen=True)
class RowIdPruner:
    """Finds out which ranges of row ids can have matching rows.

    Args:
        state: The table, with the schema of the scan.
        snapshot: The snapshot.
        conjuncts: Predicates that matching rows satisfy one and all.
        schema_ids: The schemas of its files.
    """

    state: PaimonState
    snapshot: Snapshot
    conjuncts: tuple[Predicate, ...]
    schema_ids: frozenset[int]

    def may_hold(self, first: Longs, counts: Longs) -> npt.NDArray[np.bool_] | None:
        """Judge ranges of row ids.

        Args:
            first: int64[n] The first row id of each; -1 if unknown.
            counts: int64[n] Rows of each.

        Returns:
            bool[n] Whether it can have a matching row; None if no index was asked.

        Raises:
            FormatError: An index is corrupt.
            NotFoundError: An index file is missing.
        """
        entries = self._entries()
        may, asked = np.full(len(first), True), False
        for conjunct in self.conjuncts if entries else ():
            wanted = _wanted_keys(conjunct)
            if wanted is None:
                continue
            column, keys = wanted
            own = [entry for entry in entries if entry.global_index and entry.global_index.index_field_id == column]
            type_ = self._type(column)
            if not own or type_ is None:
                continue
            found = self._look_up(own, type_, keys)
            if found is not None:
                asked = True
                may &= _reached(own, found, first, counts)
        return may if asked else None

    def _entries(self) -> list[IndexManifestEntry]:
        if self.snapshot.index_manifest is None:
            return []
        location = self.state.paths.manifest(self.snapshot.index_manifest)
        return [entry for entry in read_index_manifest(self.state.storage, location) if entry.index_type == TYPE]

    def _type(self, column: int) -> AtomicType | None:
        """The type of a column's keys; None if it was another one in some file, or keys of it are not understood."""
        types = {
            str(field.type).removesuffix(" NOT NULL"): field.type
            for number in {*self.schema_ids, self.state.schema.id}
            for field in self.state.schema_by_id(number).fields
            if field.id == column
        }
        (type_, *others) = types.values()
        return type_ if not others and isinstance(type_, AtomicType) and can_index(type_) else None

    def _look_up(self, entries: Sequence[IndexManifestEntry], type_: AtomicType, wanted: _Wanted) -> list[Longs] | None:
        """The row ids that each file of an index finds; None if it cannot be used, or too much would be read."""
        storage = self.state.storage
        keys = [
            KeyRange(*(None if key is None else as_key(type_, key) for key in (range_.least, range_.greatest)))
            for range_ in wanted.ranges
        ]
        found = []
        for entry, location in zip(entries, index_locations(self.state, entries), strict=True):
            covered = entry.global_index
            assert covered is not None

            def fetch(offset: int, length: int, location: str = location) -> bytes:
                return storage.read_range(location, offset, length)

            if covered.index_meta is not None:
                stored = decode_index_meta(type_, covered.index_meta, location)
                if not (stored.has_nulls if wanted.nulls else stored.may_hold(keys)):
                    continue
            rows = covered.row_range_end - covered.row_range_start + 1
            try:
                index = BTreeIndex(fetch, entry.file_size, type_, location)
                ids = index.null_ids(rows) if wanted.nulls else index.row_ids(keys, rows)
            except UnsupportedError:  # the rows are read without it
                return None
            if ids is None:
                return None
            found.append(ids + covered.row_range_start)
        return found


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The rows that satisfy a condition.

    Args:
        ranges: Those whose keys are in one of these ranges.
        nulls: Those without key instead.
    """

    ranges: tuple[KeyRange, ...] = ()
    nulls: bool = False


def _wanted_keys(conjunct: Predicate) -> tuple[int, _Wanted] | None:
    """The column of a condition that an index can answer, and which keys satisfy it; None for others."""
    if not isinstance(conjunct, Comparison | In | IsNull):
        return None
    if len(conjunct.column.path) > 1 or conjunct.column.inside is not None:
        return None
    column = conjunct.column.field_id
    if isinstance(conjunct, IsNull):
        return None if conjunct.negated else (column, _Wanted(nulls=True))
    if isinstance(conjunct, In):
        ranges = tuple(KeyRange(value, value) for value in conjunct.values)
        return None if conjunct.negated else (column, _Wanted(ranges))
    match conjunct.operator:
        case Operator.EQ:
            return column, _Wanted((KeyRange(conjunct.value, conjunct.value),))
        case Operator.LT | Operator.LE:
            return column, _Wanted((KeyRange(None, conjunct.value),))
        case Operator.GT | Operator.GE:
            return column, _Wanted((KeyRange(conjunct.value, None),))
    return None


class CoveredRows:
    """The row ids that index files cover.

    Args:
        entries: The files.
    """

    def __init__(self, entries: Sequence[IndexManifestEntry]) -> None:
        merged: list[list[int]] = []
        for begin, end in sorted(
            (entry.global_index.row_range_start, entry.global_index.row_range_end + 1)
            for entry in entries
            if entry.global_index is not None
        ):
            if merged and begin <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([begin, end])
        self._starts, self._ends = np.array(merged, np.int64).reshape(-1, 2).T

    def hold(self, first: Longs, counts: Longs) -> npt.NDArray[np.bool_]:
        """bool[n] Whether ranges are covered whole.

        Args:
            first: int64[n] The first row id of each.
            counts: int64[n] Rows of each.
        """
        if not len(self._starts):
            return np.full(len(first), False)
        place = np.searchsorted(self._starts, first, side="right") - 1
        inside: npt.NDArray[np.bool_] = (place >= 0) & (first + counts <= self._ends[np.maximum(place, 0)])
        return inside


def _reached(
    entries: Sequence[IndexManifestEntry],
    found: Sequence[Longs],
    first: Longs,
    counts: Longs,
) -> npt.NDArray[np.bool_]:
    """bool[n] Whether a range has a found row, or rows that the index does not cover."""
    rows = union(found)
    low, high = np.searchsorted(rows, first), np.searchsorted(rows, first + counts)
    may: npt.NDArray[np.bool_] = (high > low) | (first < 0)
    return may | ~CoveredRows(entries).hold(first, counts)
