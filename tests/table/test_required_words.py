"""Words that conditions require: in every value for which the condition is true, as the tokenizer finds them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.amudai.indexes.tokenizers import Tokenizer, find_terms
from skerry.table.indexes.words import required_words
from skerry.table.predicate import conjuncts_of, parse, row_mask

SCHEMA = pa.schema([pa.field("s", pa.string(), metadata={b"PARQUET:field_id": b"1"})])


def words(condition, tokenizer=Tokenizer.UNICODE_WORD):
    return required_words(conjuncts_of(parse(condition, SCHEMA)), 1, tokenizer)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("s LIKE '% time out %'", ('"time"', '"out"')),
        ("s LIKE '%time out%'", ("out*",)),
        ("s LIKE '% time out%'", ('"time"', "out*")),
        ("s LIKE 'time out%'", ('"time"', "out*")),
        ("s LIKE 'pre%'", ("pre*",)),
        ("s LIKE 'é%'", ()),
        ("s LIKE '%time out'", ('"out"',)),
        ("s LIKE '%[error]_code=7;%'", ('"error"', '"7"')),
        ("s = 'time out'", ('"time"', '"out"')),
        ("contains(s, ' a-b ')", ('"a"', '"b"')),
        ("starts_with(s, 'a b')", ('"a"', "b*")),
        ("ends_with(s, 'a b')", ('"b"',)),
        ("s LIKE '% a %' AND contains(s, ' b ')", ('"a"', '"b"')),
        ("s LIKE '% AND %'", ('"AND"',)),
        ("s LIKE '% a %' OR s LIKE '% b %'", ()),
        ("s NOT LIKE '% a %'", ()),
        ("s ILIKE '% a %'", ()),
        (f"s LIKE '% {'x' * 200} %'", ()),
    ],
)
def test_words_between_what_surrounds_them_are_required(condition, expected):
    assert words(condition) == expected
    assert words(condition, Tokenizer.TRIVIAL) == ()
    assert required_words(conjuncts_of(parse(condition, SCHEMA)), 2, Tokenizer.UNICODE_WORD) == ()


def test_numbers_may_be_parts_of_an_address():
    assert words("s LIKE '% from 1 to %'", Tokenizer.UNICODE_LOG) == ('"from"', '"to"')
    assert words("s LIKE '%.1.2 x %'", Tokenizer.UNICODE_LOG) == ('"x"',)


PIECES = st.lists(st.sampled_from(["a", "bc", "7", "1.2.3.4", " ", "-", ".", "é", "_"]), max_size=6).map("".join)
PATTERNS = st.lists(st.sampled_from(["%", "_", "a", "bc", "7", " ", "-", ".", "é"]), max_size=7).map("".join)


@settings(max_examples=100, deadline=None)
@given(
    texts=st.lists(PIECES, min_size=1, max_size=20),
    pattern=PATTERNS,
    tokenizer=st.sampled_from([Tokenizer.UNICODE_WORD, Tokenizer.UNICODE_LOG]),
)
def test_every_value_that_matches_has_the_words(texts, pattern, tokenizer):
    texts += [pattern.replace("%", fill).replace("_", "x") for fill in ("", "a", " ", "7", ".4")]
    condition = f"s LIKE '{pattern}'"
    mask = row_mask(parse(condition, SCHEMA), pa.record_batch({"s": texts})).to_pylist()
    for text, matches in zip(texts, mask, strict=True):
        data = text.encode()
        spans = find_terms(np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64), tokenizer)
        found = {data[at : at + size].decode() for at, size in zip(spans.starts, spans.lengths, strict=True)}
        for word in words(condition, tokenizer) if matches else ():
            begins = word.removesuffix("*")
            assert any(term.startswith(begins) for term in found) if begins != word else word.strip('"') in found, text
