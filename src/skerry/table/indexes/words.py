"""Words that conditions require, by which an index of words finds the rows that may satisfy them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from skerry.amudai.indexes.tokenizers import MAX_TERM_BYTES, Tokenizer, find_terms
from skerry.table.indexes.conditions import IndexCondition, WordCondition, value_conditions
from skerry.table.indexes.definitions import IndexKind
from skerry.table.predicate import Comparison, Holds, Operator, Predicate, StartsWith
from skerry.table.predicate.columns import Column
from skerry.table.predicate.expressions import Apply, Known
from skerry.table.predicate.kernels import like_parts

if TYPE_CHECKING:
    from skerry.table.indexes.building import WantedIndex

__all__ = ["index_conditions", "required_words"]


def index_conditions(conjuncts: Sequence[Predicate], wanted: Iterable[WantedIndex]) -> tuple[IndexCondition, ...]:
    """The conditions with which a table's indexes help.

    Args:
        conjuncts: Conditions that matching rows satisfy one and all.
        wanted: The indexes.
    """
    found: list[IndexCondition] = [*value_conditions(conjuncts)]
    for index in wanted:
        if index.kind is IndexKind.TEXT:
            words = required_words(conjuncts, index.field_id, Tokenizer(index.tokenizer))
            if words:
                found.append(WordCondition(index, " AND ".join(words)))
    return tuple(found)


def required_words(conjuncts: Iterable[Predicate], field_id: int, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Words that every value of a column has for which all conditions are true.

    A text within a value says nothing of words that begin before it, and how words begin that go on beyond it:
    `LIKE '%time out%'` requires a word that begins with `out`, `LIKE '% time out%'` the word `time`, too.

    Args:
        conjuncts: The conditions.
        field_id: The column.
        tokenizer: What a word is.

    Returns:
        Distinct parts of a query, in the order of the words: in quotes, or with a star if a word only begins so.
    """
    if tokenizer is Tokenizer.TRIVIAL:
        return ()
    words = (
        word
        for conjunct in conjuncts
        for text, begins, ends in _texts(conjunct, field_id)
        for word in _words(text, begins, ends, tokenizer)
    )
    return tuple(dict.fromkeys(words))


def _texts(predicate: Predicate, field_id: int) -> Iterator[tuple[str, bool, bool]]:
    """Texts that are in every value, each with whether it begins the value, and whether it ends it."""
    match predicate:
        case Comparison(column, Operator.EQ, str(value)) if _is_whole(column, field_id):
            yield value, True, True
        case StartsWith(column, prefix, False) if _is_whole(column, field_id):
            yield prefix, True, False
        case Holds(Apply(function, (Column() as column, Known(str(text))))) if _is_whole(column, field_id):
            if function == "like":
                parts = like_parts(text)
                for place, part in enumerate(parts):
                    if part:
                        yield part, place == 0, place == len(parts) - 1
            elif function in ("contains", "starts_with", "ends_with"):
                yield text, function == "starts_with", function == "ends_with"


def _is_whole(column: Column, field_id: int) -> bool:
    return column.field_id == field_id and column.inside is None


def _words(text: str, begins: bool, ends: bool, tokenizer: Tokenizer) -> Iterator[str]:
    """Words of a text that are words of every value with it: what surrounds them is in the text, too.

    Of a word that may go on after the text its beginning is known. Whether case is folded alike with and without what
    follows is certain of ASCII alone.
    """
    data = text.encode()
    spans = find_terms(np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64), tokenizer)
    for start, length in zip(spans.starts.tolist(), spans.lengths.tolist(), strict=True):
        end = start + length
        is_first = start == 0 and not begins
        if is_first or length >= MAX_TERM_BYTES:  # longer words are cut
            continue
        word = data[start:end].decode()
        # numbers may be parts of an address in the value
        if tokenizer is not Tokenizer.UNICODE_WORD and any(character.isnumeric() for character in word):
            continue
        if end < len(data) or ends:
            yield f'"{word}"'
        elif word.isascii() and word.isalnum():
            yield f"{word}*"
