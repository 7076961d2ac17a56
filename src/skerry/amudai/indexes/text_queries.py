"""Queries for words: `timeout AND "connection reset" OR disk* NOT test`.

Words next to each other must all be there. A text in quotes is a phrase: its words, one after the other. A star at the
end of a word stands for any end. OR binds weaker than AND, and AND weaker than NOT; all three are written in capitals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.indexes.collations import equal_spans
from skerry.amudai.indexes.tokenizers import Spans, Tokenizer, find_terms
from skerry.bitmaps.position_sets import intersection, union
from skerry.errors import SchemaError

__all__ = [
    "And",
    "Not",
    "Or",
    "Query",
    "TermIndex",
    "Words",
    "candidate_rows",
    "found_spans",
    "matching_values",
    "parse_query",
    "terms_of",
]

_TOKEN: Final = re.compile(r'\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*")|(?P<bracket>[()])|(?P<word>[^\s()"]+))')
_ESCAPE: Final = re.compile(r"\\(.)")
_ADDRESS_START: Final = re.compile(r"\d{1,3}(\.\d{1,3}){0,2}\.(\d{1,2})?")
_MAX_DEPTH: Final = 64
_Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Words:
    """Terms that follow each other in a value.

    Args:
        text: The words as they were written.
        is_prefix: Whether the last one is only how a term begins.
    """

    text: str
    is_prefix: bool = False


@dataclass(frozen=True, slots=True)
class Not:
    """Values without something."""

    part: Query


@dataclass(frozen=True, slots=True)
class And:
    """Values with everything."""

    parts: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Values with anything."""

    parts: tuple[Query, ...]


Query = Words | Not | And | Or


def parse_query(text: str) -> Query:
    """Parse a query.

    Raises:
        SchemaError: It is empty, or something is missing in it.
    """
    return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise SchemaError(f"a search is a text such as 'timeout AND \"connection reset\"', found {text!r}")
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise SchemaError(f"the search {text!r} has a quote without its end")
            kind = str(match.lastgroup)
            self._tokens.append((kind, match[kind]))
            at = match.end()
        self._at = 0

    def parse(self) -> Query:
        query = self._or(0)
        if self._at < len(self._tokens):
            raise SchemaError(f"the search {self._text!r} has a bracket too many")
        return query

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _or(self, depth: int) -> Query:
        if depth > _MAX_DEPTH:
            raise SchemaError(f"the search nests deeper than {_MAX_DEPTH} brackets")
        parts = [self._and(depth)]
        while self._peek() == ("word", "OR"):
            self._at += 1
            parts.append(self._and(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _and(self, depth: int) -> Query:
        parts = [self._not(depth)]
        while True:
            following = self._peek()
            if following == ("word", "AND"):
                self._at += 1
            elif following[0] == "end" or following in (("word", "OR"), ("bracket", ")")):
                return parts[0] if len(parts) == 1 else And(tuple(parts))
            parts.append(self._not(depth))

    def _not(self, depth: int) -> Query:
        negated = False
        while self._peek() == ("word", "NOT"):
            self._at += 1
            negated = not negated
        part = self._single(depth)
        return Not(part) if negated else part

    def _single(self, depth: int) -> Query:
        kind, piece = self._peek()
        self._at += 1
        if kind == "bracket" and piece == "(":
            part = self._or(depth + 1)
            if self._peek() != ("bracket", ")"):
                raise SchemaError(f"the search {self._text!r} has a bracket without its end")
            self._at += 1
            return part
        if kind == "quoted":
            return Words(_ESCAPE.sub(r"\1", piece[1:-1]))
        if kind == "word" and piece not in ("AND", "OR"):
            is_prefix = len(piece) > 1 and piece.endswith("*")
            return Words(piece[:-1] if is_prefix else piece, is_prefix)
        raise SchemaError(
            f"the search {self._text!r} lacks a word" + (f" before {piece!r}" if piece else " at its end")
        )


# By an index -----------------------------------------------------------------------------------------------------


class TermIndex(Protocol):
    """What an index tells of terms, or of all terms that begin with a text (`is_prefix`)."""

    def count(self, term: str, *, is_prefix: bool) -> int:
        """About how much is to be read for the rows."""

    def rows(self, term: str, *, is_prefix: bool) -> _Rows:
        """The rows that may have one: int64[n], ascending, distinct."""

    def among(self, rows: _Rows, term: str, *, is_prefix: bool) -> _Rows:
        """Those of some rows that may."""


def candidate_rows(query: Query, tokenizer: Tokenizer, index: TermIndex) -> _Rows | None:
    """The rows that may match, by an index.

    Args:
        query: The query.
        tokenizer: The tokenizer of the index.
        index: The index.

    Returns:
        int64[n], ascending and distinct; None for all rows.
    """
    if isinstance(query, Not):
        return None
    if isinstance(query, Or):
        known = [candidate_rows(part, tokenizer, index) for part in query.parts]
        parts = [part for part in known if part is not None]
        return union(parts) if len(parts) == len(known) else None
    single = (query,) if isinstance(query, Words) else query.parts
    found: _Rows | None = None
    for part in single:
        if not isinstance(part, Words):
            rows = candidate_rows(part, tokenizer, index)
            if rows is not None:
                found = rows if found is None else intersection(found, rows)
    terms = [term for part in single if isinstance(part, Words) for term in _required(part, tokenizer)]
    # rare terms first: of the others only the rows that are left are looked for
    for term, is_prefix in sorted(terms, key=lambda each: index.count(each[0], is_prefix=each[1])):
        if found is None:
            found = index.rows(term, is_prefix=is_prefix)
        elif len(found):
            found = index.among(found, term, is_prefix=is_prefix)
    return found


def _required(words: Words, tokenizer: Tokenizer) -> list[tuple[str, bool]]:
    """The terms that must all be there, and whether they only begin so."""
    terms = terms_of(words, tokenizer)
    return [(term, words.is_prefix and place == len(terms) - 1) for place, term in enumerate(terms)]


@lru_cache(256)
def terms_of(words: Words, tokenizer: Tokenizer) -> tuple[str, ...]:
    """The terms of a text, in the order that they have in it.

    Raises:
        SchemaError: There are none, so that no value can be found.
    """
    if tokenizer is Tokenizer.UNICODE_LOG and words.is_prefix and _ADDRESS_START.fullmatch(words.text):
        return (words.text,)
    data = words.text.encode(errors="replace")
    spans = _sequence(np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64), tokenizer)
    if not len(spans.starts):
        raise SchemaError(f"{words.text!r} has no word that the tokenizer {tokenizer} knows")
    ends = (spans.starts + spans.lengths).tolist()
    return tuple(
        data[start:end].decode(errors="replace") for start, end in zip(spans.starts.tolist(), ends, strict=True)
    )


# On values ---------------------------------------------------------------------------------------------------------


def matching_values(
    query: Query, values: pa.LargeBinaryArray, tokenizer: Tokenizer, *, matches_case: bool
) -> npt.NDArray[np.bool_]:
    """Which values match a query, without an index.

    Args:
        query: The query.
        values: UTF-8; nulls match nothing, and so does their *not*.
        tokenizer: What a word is.
        matches_case: Whether words that differ in case are different.

    Returns:
        bool[n].
    """
    texts = _Texts(values, tokenizer, matches_case=matches_case)
    found = texts.matching(query)
    return found & values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else found


def found_spans(query: Query, text: str, tokenizer: Tokenizer, *, matches_case: bool) -> list[tuple[int, int]]:
    """Where the words of a query are in a text: starts and ends in characters, ascending and apart from each other.

    Args:
        query: The query; what must not be there is not looked for.
        text: The text.
        tokenizer: What a word is.
        matches_case: Whether words that differ in case are different.
    """
    data = text.encode(errors="replace")
    texts = _Texts(pa.array([data], pa.large_binary()), tokenizer, matches_case=matches_case)
    found: list[tuple[int, int]] = []
    for start, end in sorted(texts.spans(query)):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return [(len(data[:start].decode()), len(data[:end].decode())) for start, end in found]


class _Texts:
    """The terms of values, in any order and in theirs."""

    def __init__(self, values: pa.LargeBinaryArray, tokenizer: Tokenizer, *, matches_case: bool) -> None:
        self._count = len(values)
        self._tokenizer = tokenizer
        self._matches_case = matches_case
        filled = values.fill_null(b"") if values.null_count else values
        self._offsets = np.frombuffer(filled.buffers()[1], np.int64, len(filled) + 1, 8 * filled.offset)
        self._data = np.frombuffer(filled.buffers()[2] or b"", np.uint8)

    @cached_property
    def _terms(self) -> Spans:
        """All terms."""
        return find_terms(self._data, self._offsets, self._tokenizer)

    @cached_property
    def _sequences(self) -> Spans:
        """Terms that follow each other; the words within an address are not among them."""
        if self._tokenizer is not Tokenizer.UNICODE_LOG:
            return self._terms
        return _sequence(self._data, self._offsets, self._tokenizer)

    def matching(self, query: Query) -> npt.NDArray[np.bool_]:
        """bool[n], which values match."""
        if isinstance(query, Not):
            return ~self.matching(query.part)
        if isinstance(query, Words):
            return self._with_words(query)
        parts: Sequence[npt.NDArray[np.bool_]] = [self.matching(part) for part in query.parts]
        join = np.logical_and if isinstance(query, And) else np.logical_or
        return np.asarray(join.reduce(parts))

    def spans(self, query: Query) -> Iterator[tuple[int, int]]:
        """Where words that a query wants begin and end in the data."""
        if isinstance(query, Words):
            spans, here, count = self._places(query)
            for place in here.tolist():
                last = place + count - 1
                yield int(spans.starts[place]), int(spans.starts[last] + spans.lengths[last])
        elif not isinstance(query, Not):
            for part in query.parts:
                yield from self.spans(part)

    def _with_words(self, words: Words) -> npt.NDArray[np.bool_]:
        spans, here, _ = self._places(words)
        found = np.zeros(self._count, bool)
        found[spans.values[here]] = True
        return found

    def _places(self, words: Words) -> tuple[Spans, npt.NDArray[np.int64], int]:
        """Terms, which of them begin the words, and how many terms the words are."""
        wanted = [term.encode(errors="replace") for term in terms_of(words, self._tokenizer)]
        spans = self._terms if len(wanted) == 1 else self._sequences
        here = np.arange(max(len(spans.starts) - len(wanted) + 1, 0))  # where a sequence may begin
        for step, term in enumerate(wanted):
            is_prefix = words.is_prefix and step == len(wanted) - 1
            starts, lengths = spans.starts[here + step], spans.lengths[here + step]
            same = equal_spans(self._data, starts, lengths, term, folds=not self._matches_case, is_prefix=is_prefix)
            here = here[same & (spans.values[here + step] == spans.values[here])]
        return spans, here, len(wanted)


def _sequence(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], tokenizer: Tokenizer) -> Spans:
    """Terms in the order that they have in values. An address stands where its words would."""
    spans = find_terms(data, offsets, tokenizer)
    if tokenizer is not Tokenizer.UNICODE_LOG or not len(spans.starts):
        return spans
    order = np.lexsort((-spans.lengths, spans.starts, spans.values))
    starts, lengths, values = spans.starts[order], spans.lengths[order], spans.values[order]
    # a word within an address begins before the address ends
    ends = np.maximum.accumulate(starts + lengths)
    outside = np.append(True, starts[1:] >= ends[:-1])
    return Spans(starts[outside], lengths[outside], values[outside])
