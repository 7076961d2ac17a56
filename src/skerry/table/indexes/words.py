"""Words that a condition requires, by which an index of words finds the rows that may satisfy it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from skerry.amudai.indexes.tokenizers import MAX_TERM_BYTES, Tokenizer, find_terms
from skerry.table.predicate import Comparison, Holds, Operator, Predicate, StartsWith
from skerry.table.predicate.columns import Column
from skerry.table.predicate.expressions import Apply, Known
from skerry.table.predicate.kernels import like_parts

__all__ = ["required_words"]


def required_words(conjuncts: Iterable[Predicate], field_id: int, tokenizer: Tokenizer) -> tuple[str, ...]:
    """Words that every value of a column has for which all conditions are true.

    A text within a value says nothing of words that go on beyond it: `LIKE '%time out%'` requires neither word,
    `LIKE '% time out%'` the first one.

    Args:
        conjuncts: The conditions.
        field_id: The column, not a field of it.
        tokenizer: What a word is.

    Returns:
        Distinct words as they are written, in their order; none if nothing is known.
    """
    if tokenizer is Tokenizer.TRIVIAL:
        return ()
    words = (
        word
        for conjunct in conjuncts
        for text, begins, ends in _texts(conjunct, field_id)
        for word in _whole_words(text, begins, ends, tokenizer)
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
    return column.field_id == field_id and len(column.path) == 1 and column.inside is None


def _whole_words(text: str, begins: bool, ends: bool, tokenizer: Tokenizer) -> Iterator[str]:
    """Words of a text that are words of every value with it: what surrounds them is in the text, too."""
    data = text.encode()
    spans = find_terms(np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64), tokenizer)
    for start, length in zip(spans.starts.tolist(), spans.lengths.tolist(), strict=True):
        is_bounded = (start > 0 or begins) and (start + length < len(data) or ends)
        if not is_bounded or length >= MAX_TERM_BYTES:  # longer words are cut
            continue
        word = data[start : start + length].decode()
        # numbers may be parts of an address in the value
        if tokenizer is Tokenizer.UNICODE_WORD or not any(character.isnumeric() for character in word):
            yield word
