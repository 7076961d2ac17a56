"""Inverted text indexes: from terms to the rows that have them.

Spec: docs/formats/amudai-indexes.md § 2.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.amudai.indexes.collations import Collation, fold_bytes
from skerry.amudai.indexes.descriptors import TextDescription
from skerry.amudai.indexes.position_lists import Representation, decode_positions, positions_among
from skerry.amudai.indexes.postings import Postings, decode_postings
from skerry.amudai.indexes.term_pages import PAGE_SCHEMA, POSITION_SCHEMA
from skerry.amudai.reading.index_shard import IndexShard
from skerry.bitmaps.position_sets import difference, union
from skerry.errors import FormatError
from skerry.storage import Storage

__all__ = ["TermRows", "TextIndexReader"]

_PAGES_KEPT: Final = 1024
_RULE: Final = "docs/formats/amudai-indexes.md § 2.4"
_Rows = npt.NDArray[np.int64]
_ListKey = tuple[object, int]
_LISTS_BYTES: Final = 32 << 20
"""Memory for lists of positions: to decode a block takes longer than all that follows for a rare word."""
_LIST_BYTES: Final = 1 << 20
"""Longer ones are not kept: their rows take longer."""


@dataclass(frozen=True, slots=True)
class TermRows:
    """Rows that have a term, or may have it.

    Args:
        exact: int64[n], ascending, distinct: rows that have it.
        possible: int64[m], ascending, distinct: rows that have it or not; none of `exact`.
    """

    exact: _Rows
    possible: _Rows

    @property
    def all(self) -> _Rows:
        """Both, ascending."""
        if not len(self.exact):
            return self.possible
        return union([self.exact, self.possible]) if len(self.possible) else self.exact


@dataclass(frozen=True, slots=True)
class _List:
    """A list of positions of a term: its field, representation, and slice of the positions column."""

    schema_id: int
    representation: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Page:
    """A page: the terms of its entries and their folded forms, and the children, or the lists, of each."""

    level: int
    terms: list[bytes]
    folded: list[bytes]
    children: list[int]
    lists: list[list[_List]]


class _KnownLists:
    """The lists of positions that were read last, of all indexes."""

    def __init__(self) -> None:
        self._lists: OrderedDict[_ListKey, tuple[_Rows, bool]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def find(self, key: _ListKey) -> tuple[_Rows, bool] | None:
        with self._lock:
            found = self._lists.get(key)
            if found is not None:
                self._lists.move_to_end(key)
            return found

    def keep(self, key: _ListKey, found: tuple[_Rows, bool]) -> None:
        rows = found[0]
        if rows.nbytes > _LIST_BYTES:
            return
        rows.flags.writeable = False
        with self._lock:
            self._bytes += rows.nbytes - (self._lists[key][0].nbytes if key in self._lists else 0)
            self._lists[key] = found
            while self._bytes > _LISTS_BYTES:
                _, (leaving, _) = self._lists.popitem(last=False)
                self._bytes -= leaving.nbytes


_lists: Final = _KnownLists()


class TextIndexReader:
    """A text index, open for reading. Its shards are opened when they are needed.

    Args:
        storage: Where to read from.
        description: What the descriptor says.
        row_count: Rows of what the index is of.
        allowed_locations: Folders into which absolute urls may lead.
    """

    def __init__(
        self, storage: Storage, description: TextDescription, row_count: int, allowed_locations: Iterable[str] = ()
    ) -> None:
        self._storage = storage
        self._description = description
        self._row_count = row_count
        self._allowed = tuple(allowed_locations)
        self._page = lru_cache(_PAGES_KEPT)(self._read_page)
        self._token = object()

    @property
    def matches_case(self) -> bool:
        """Whether terms that differ in case are different."""
        return self._description.collation is Collation.CASE_PRESERVING

    @cached_property
    def _terms(self) -> IndexShard:
        reference = self._description.terms
        return IndexShard(self._storage, reference, PAGE_SCHEMA, allowed_locations=self._allowed)

    @cached_property
    def _positions(self) -> IndexShard:
        reference = self._description.positions
        return IndexShard(self._storage, reference, POSITION_SCHEMA, allowed_locations=self._allowed)

    def find(self, term: str, schema_id: int, *, is_prefix: bool = False) -> TermRows:
        """The rows whose values at a leaf have a term, or a term that begins with a text.

        Args:
            term: The term, or how terms begin. Case matters as the index's collation says.
            schema_id: The leaf.
            is_prefix: Whether it is how terms begin.

        Raises:
            NotFoundError: A file of the index is missing.
            FormatError: The index is damaged.
        """
        exact: list[_Rows] = []
        possible: list[_Rows] = []
        for each in self._lists(term.encode(errors="replace"), is_prefix=is_prefix):
            if each.schema_id == schema_id:
                rows, is_exact = self._rows(each)
                (exact if is_exact else possible).append(rows)
        found = union(exact)
        return TermRows(found, difference(union(possible), found) if len(found) else union(possible))

    def count(self, term: str, schema_id: int, *, is_prefix: bool = False) -> int:
        """How many numbers the lists of a term have: about what reading them costs.

        Args:
            term: As for `find`.
            schema_id: As for `find`.
            is_prefix: As for `find`.

        Raises:
            NotFoundError, FormatError: As `find`.
        """
        lists = self._lists(term.encode(errors="replace"), is_prefix=is_prefix)
        return sum(each.end - each.start for each in lists if each.schema_id == schema_id)

    def among(self, rows: _Rows, term: str, schema_id: int, *, is_prefix: bool = False) -> _Rows:
        """Those of some rows that `find` finds, too.

        Args:
            rows: int64[n], ascending, distinct.
            term: As for `find`.
            schema_id: As for `find`.
            is_prefix: As for `find`.

        Raises:
            NotFoundError, FormatError: As `find`.
        """
        found = np.zeros(len(rows), np.bool_)
        for each in self._lists(term.encode(errors="replace"), is_prefix=is_prefix):
            if each.schema_id == schema_id:
                encoded, shown = self._encoded(each), self._positions.shown
                found |= positions_among(encoded, each.representation, self._row_count, rows, location=shown)
        return rows[found]

    def postings(self) -> Postings:
        """All terms with their rows.

        Raises:
            NotFoundError: A file of the index is missing.
            FormatError: The index is damaged.
            UnsupportedError: It is too large to be in memory at once.
        """
        pages, positions = (shard.take(np.arange(shard.record_count)) for shard in (self._terms, self._positions))
        column = positions.column(0).combine_chunks()
        if column.null_count:
            raise FormatError("a list of positions has nulls", location=self._positions.shown, rule=_RULE)
        numbers = column.to_numpy().astype(np.uint64, copy=False)
        return decode_postings(pages, numbers, self._row_count, location=self._terms.shown)

    def _rows(self, each: _List) -> tuple[_Rows, bool]:
        known = _lists.find((self._token, each.start))
        if known is None:
            known = self._read_rows(each)
            _lists.keep((self._token, each.start), known)
        return known

    def _read_rows(self, each: _List) -> tuple[_Rows, bool]:
        encoded, shown = self._encoded(each), self._positions.shown
        return decode_positions(encoded, each.representation, self._row_count, location=shown)

    def _encoded(self, each: _List) -> npt.NDArray[np.uint64]:
        """The slice of the positions column that a list is."""
        shard = self._positions
        if each.end > shard.record_count:
            raise FormatError(
                f"a list of positions ends at {each.end} of {shard.record_count}", location=shard.shown, rule=_RULE
            )
        column = shard.column(each.start, each.end)
        if column.null_count:
            raise FormatError("a list of positions has nulls", location=shard.shown, rule=_RULE)
        encoded: npt.NDArray[np.uint64] = column.to_numpy()
        return encoded

    def _lists(self, term: bytes, *, is_prefix: bool) -> Iterator[_List]:
        folded = fold_bytes(term)
        at, entry = self._first_leaf(folded)
        while at is not None:
            page = self._page(at)
            for i in range(entry, len(page.terms)):
                found = page.folded[i]
                if not (found.startswith(folded) if is_prefix else found == folded):
                    return
                if not self.matches_case or (page.terms[i].startswith(term) if is_prefix else page.terms[i] == term):
                    yield from page.lists[i]
            at, entry = self._next_leaf(at), 0

    def _first_leaf(self, folded: bytes) -> tuple[int | None, int]:
        """The leaf, and the entry in it, of the first term that is not less."""
        at = self._terms.record_count - 1
        if at < 0:
            return None, 0
        while True:
            page = self._page(at)
            entry = bisect_left(page.folded, folded)
            if page.level == 0:
                return at, entry
            at = page.children[min(entry, len(page.children) - 1)]

    def _next_leaf(self, at: int) -> int | None:
        for following in range(at + 1, self._terms.record_count):
            if self._page(following).level == 0:
                return following
        return None

    def _read_page(self, at: int) -> _Page:
        """Read and check a page."""
        shard = self._terms
        (record,) = shard.take(np.array([at])).to_pylist()
        try:
            page = _decode_page(record)
        except (TypeError, KeyError, IndexError) as error:
            raise FormatError(f"page {at} of a text index lacks values", location=shard.shown, rule=_RULE) from error
        rises = all(first <= second for first, second in zip(page.folded, page.folded[1:], strict=False))
        # children precede the page over them, so that the way down ends
        if not page.terms or not rises or any(not 0 <= child < at for child in page.children):
            raise FormatError(
                f"page {at} of a text index has terms out of order, or children that do not precede it",
                location=shard.shown,
                rule=_RULE,
            )
        if any(each.start > each.end or each.representation not in set(Representation) for each in _all(page.lists)):
            raise FormatError(f"page {at} of a text index has bad lists", location=shard.shown, rule=_RULE)
        return page


def _all(lists: list[list[_List]]) -> Iterator[_List]:
    return (each for of_term in lists for each in of_term)


def _decode_page(record: dict[str, Any]) -> _Page:
    level, entries = int(record["level"]), record["entries"]
    terms = [bytes(entry["term"]) for entry in entries]
    children: list[int] = []
    lists: list[list[_List]] = []
    if level:
        children = [int(entry["child_position"]) for entry in entries]
    else:
        start = int(record["pos_list_start_offset"])
        for entry in entries:
            of_term = []
            for stripe in entry["term_positions"]:
                for field in stripe["fields"]:
                    end = int(field["pos_list_end_offset"])
                    of_term.append(_List(int(field["field_schema_id"]), int(field["repr_type"]), start, end))
                    start = end
            lists.append(of_term)
    return _Page(level, terms, [fold_bytes(term) for term in terms], children, lists)
