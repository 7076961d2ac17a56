"""Terms with the rows that they are in, taken out of a text index, and put together with those of others.

Spec: docs/formats/amudai-indexes.md § 2.4, § 2.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.amudai.indexes.collations import Collation, fold
from skerry.amudai.indexes.position_lists import Representation, encode_positions
from skerry.amudai.indexes.term_lists import SortedTerms
from skerry.errors import FormatError, UnsupportedError

__all__ = ["Postings", "decode_postings", "sort_postings"]

_MAX_ROWS: Final = 1 << 28
"""Rows of lists that are in memory at once."""
_PAGES: Final = "docs/formats/amudai-indexes.md § 2.4"
_LISTS: Final = "docs/formats/amudai-indexes.md § 2.5"
_Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Postings:
    """Lists of rows.

    Args:
        terms: large_binary[n], the term of each list.
        schema_ids: int64[n], its leaf.
        possible: bool[n], whether rows may be in the list that do not have the term.
        lengths: int64[n], how many rows it has.
        rows: int64[m], the rows of all lists, ascending in each.
    """

    terms: pa.LargeBinaryArray
    schema_ids: _Integers
    possible: npt.NDArray[np.bool_]
    lengths: _Integers
    rows: _Integers

    @property
    def lists(self) -> _Integers:
        """int64[m], the list of each row."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def decode_postings(pages: pa.Table, positions: npt.NDArray[np.uint64], row_count: int, *, location: str) -> Postings:
    """All lists of a text index.

    Args:
        pages: The terms shard.
        positions: The positions shard.
        row_count: Rows of what the index is of.
        location: The terms shard, for errors.

    Raises:
        FormatError: The index is damaged.
        UnsupportedError: It has more rows in its lists than can be merged.
    """
    pages = pages.filter(pc.equal(pages["level"], pa.scalar(0, pa.uint8())))
    entries, page_starts = (pages.column(name).combine_chunks() for name in ("entries", "pos_list_start_offset"))
    found = entries.flatten()
    terms, stripes_of_terms = found.field("term"), found.field("term_positions")
    stripes = stripes_of_terms.flatten()
    fields_of_stripes = stripes.field("fields")
    fields = fields_of_stripes.flatten()
    columns = [fields.field(name) for name in ("field_schema_id", "repr_type", "pos_list_end_offset")]
    nested = [entries, page_starts, found, terms, stripes_of_terms, stripes, fields_of_stripes, fields, *columns]
    if any(each.null_count for each in nested):
        raise FormatError("a page of a text index lacks values", location=location, rule=_PAGES)
    term_of_stripe = np.repeat(np.arange(len(terms)), _lengths(stripes_of_terms))
    term_of = term_of_stripe[np.repeat(np.arange(len(stripes)), _lengths(fields_of_stripes))]
    page_of = np.repeat(np.arange(len(entries)), _lengths(entries))[term_of]
    schema_ids, kinds, ends = (column.to_numpy().astype(np.int64) for column in columns)
    starts = np.append(0, ends[:-1])[: len(ends)]
    is_first = np.append(True, page_of[1:] != page_of[:-1])[: len(ends)]
    starts[is_first] = page_starts.to_numpy().astype(np.int64)[page_of[is_first]]
    is_bad = (starts > ends) | (starts < 0) | (ends > len(positions)) | (kinds > max(Representation))
    if is_bad.any():
        raise FormatError("a text index has bad lists", location=location, rule=_PAGES)
    lengths, rows = _decoded(positions, starts, ends, kinds, row_count, location)
    possible = kinds == Representation.APPROXIMATE_RANGES
    return Postings(terms.cast(pa.large_binary()).take(pa.array(term_of)), schema_ids, possible, lengths, rows)


def _lengths(lists: pa.ListArray) -> _Integers:
    found: _Integers = pc.list_value_length(lists).to_numpy().astype(np.int64)
    return found


def _decoded(
    positions: npt.NDArray[np.uint64],
    starts: _Integers,
    ends: _Integers,
    kinds: _Integers,
    row_count: int,
    location: str,
) -> tuple[_Integers, _Integers]:
    """The lengths of lists, and their rows."""
    sizes = ends - starts
    begins = np.cumsum(sizes) - sizes
    lists = np.repeat(np.arange(len(sizes)), sizes)
    places = np.arange(int(sizes.sum())) - begins[lists]
    numbers = positions[places + starts[lists]].astype(np.int64)
    is_range = kinds[lists] != Representation.POSITIONS
    chosen = ~is_range | (places % 2 == 0)
    firsts, of = numbers[chosen], lists[chosen]
    lasts = np.where(is_range, np.append(numbers[1:], 0)[: len(numbers)], numbers + 1)[chosen]
    is_same = of[1:] == of[:-1]
    is_odd = (sizes % 2 == 1) & (kinds != Representation.POSITIONS)
    if is_odd.any() or (firsts < 0).any() or (lasts <= firsts).any() or (lasts > row_count).any():
        raise _not_rows(location, row_count)
    if (firsts[1:][is_same] < lasts[:-1][is_same]).any():
        raise _not_rows(location, row_count)
    counts = lasts - firsts
    total = int(counts.sum())
    if total > _MAX_ROWS:
        raise UnsupportedError(f"a text index with {total} rows in its lists is not merged", location=location)
    rows = np.arange(total) + np.repeat(firsts - (np.cumsum(counts) - counts), counts)
    lengths = np.bincount(of, counts, len(sizes)).astype(np.int64)
    return lengths, rows


def _not_rows(location: str, row_count: int) -> FormatError:
    return FormatError(
        f"a list of positions is not one of ascending positions below {row_count}", location=location, rule=_LISTS
    )


def sort_postings(parts: Sequence[Postings], collation: Collation) -> tuple[SortedTerms, list[int]]:
    """Put lists together: those of a term and a leaf become one.

    Args:
        parts: The lists of several indexes, whose rows follow each other.
        collation: Which terms are equal, and their order.

    Returns:
        The terms, and the schema id of each part that their entries have.
    """
    terms = pa.chunked_array([part.terms for part in parts], pa.large_binary()).combine_chunks()
    folded = _folded(terms)
    numbers = (folded if collation is Collation.CASE_INSENSITIVE else terms).dictionary_encode().indices.to_numpy()
    _, firsts = np.unique(numbers, return_index=True)
    table = pa.table({"folded": folded.take(pa.array(firsts)), "term": terms.take(pa.array(firsts))})
    order = pc.sort_indices(table, sort_keys=[("folded", "ascending"), ("term", "ascending")]).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    ranks = rank[numbers]
    schema_ids = np.concatenate([part.schema_ids for part in parts])
    known = np.unique(schema_ids)
    chosen = np.lexsort((schema_ids, ranks))
    lengths = np.concatenate([part.lengths for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    begins = (np.cumsum(lengths) - lengths)[chosen]
    ranks, schema_ids, lengths = ranks[chosen], schema_ids[chosen], lengths[chosen]
    stops = np.cumsum(lengths)
    places = np.arange(len(rows)) + np.repeat(begins - (stops - lengths), lengths)
    is_new = np.append(True, (ranks[1:] != ranks[:-1]) | (schema_ids[1:] != schema_ids[:-1]))[: len(ranks)]
    groups = np.flatnonzero(is_new)
    ends = stops[np.append(groups[1:], len(ranks))[: len(groups)] - 1]
    starts = np.append(0, ends[:-1])[: len(ends)]
    possible = np.concatenate([part.possible for part in parts])[chosen]
    uncertain = np.logical_or.reduceat(possible, groups) if len(groups) else possible
    filled = ends > starts
    encoded = encode_positions(rows[places].astype(np.uint32), starts[filled], ends[filled], uncertain[filled])
    positions, representations, list_ends = encoded
    entry_parts = np.searchsorted(known, schema_ids[groups][filled])
    found = SortedTerms(
        table["term"].combine_chunks().take(pa.array(order)),
        ranks[groups][filled],
        entry_parts,
        representations,
        list_ends,
        positions,
    )
    return found, known.tolist()


def _folded(terms: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    if not len(terms):
        return terms
    offsets = np.frombuffer(terms.buffers()[1], np.int64, len(terms) + 1, 8 * terms.offset)
    data = np.frombuffer(terms.buffers()[2] or b"", np.uint8)
    folded, folded_offsets = fold(data, offsets)
    buffers = [None, pa.py_buffer(folded_offsets), pa.py_buffer(folded)]
    return pa.Array.from_buffers(pa.large_binary(), len(terms), buffers)
