"""Text and hash indexes: those of the reference are read, ours are the same, and they never change what is found."""

from __future__ import annotations

import functools
import json
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import plain_texts
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden_shards import SHARED, SHIPPED
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry import amudai
from skerry.amudai.indexes.character_tables import alphanumeric_flags, upper_case
from skerry.amudai.indexes.collations import Collation, fold_bytes
from skerry.amudai.indexes.descriptors import HashDescription, TextDescription, decode_index
from skerry.amudai.indexes.hash_buckets import build_partition, is_of_unique_keys
from skerry.amudai.indexes.hash_keys import has_keys, keys_of_leaf
from skerry.amudai.indexes.leaves import leaves_of_column
from skerry.amudai.indexes.position_lists import decode_positions, encode_positions
from skerry.amudai.indexes.term_lists import TermLists
from skerry.amudai.indexes.term_pages import build_pages
from skerry.amudai.indexes.tokenizers import Tokenizer, find_terms
from skerry.amudai.messages import IndexDescriptor
from skerry.amudai.reading.hash_index import HashIndexReader
from skerry.amudai.reading.text_index import TextIndexReader
from skerry.amudai.shard.schema import InternalKind
from skerry.amudai.statistics.xxh3 import hash_values
from skerry.amudai.values.types import INTERNAL_KIND_KEY
from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.storage import Storage

# Indexes of the reference -------------------------------------------------------------------------------------------


def golden(kind: str) -> list[Any]:
    folders: dict[str, Path] = {}
    for root in (SHIPPED / "indexes", SHARED / "amudai-index"):
        for path in sorted(root.glob(f"{kind}*/data.amudai.shard")):
            folders.setdefault(path.parent.name, path.parent)
    return [pytest.param(folder, id=name) for name, folder in folders.items()]


def described(folder: Path) -> tuple[Any, int, dict[str, Any]]:
    message = IndexDescriptor()
    message.ParseFromString((folder / "indexes" / "descriptor.pb").read_bytes())
    shard = amudai.ShardFile(folder / "data.amudai.shard")
    found = decode_index(message, shard.metadata.rules, location="descriptor.pb")
    return found, shard.num_rows, json.loads((folder / "queries.json").read_text())


@pytest.mark.parametrize("folder", golden("text"))
def test_text_index_of_the_reference(folder: Path) -> None:
    description, rows, queries = described(folder)
    assert isinstance(description, TextDescription)
    assert description.collation == queries["collation"]
    reader = TextIndexReader(Storage(), description, rows)
    for name, expected in queries["expected_positions"].items():
        kind, _, term = name.partition(":")
        exact: set[int] = set()
        every: set[int] = set()
        for schema_id in description.schema_ids:
            found = reader.find(term, schema_id, is_prefix=kind == "prefix")
            exact |= set(found.exact.tolist())
            every |= set(found.all.tolist())
        assert exact <= set(expected) <= every, name
        answer = queries["reference_answer"][name]
        assert (len(exact), len(every - exact)) == (answer["exact"], answer["unknown"]), name


@pytest.mark.parametrize("folder", golden("text"))
def test_text_index_like_that_of_the_reference(folder: Path) -> None:
    description, _, queries = described(folder)
    shard = amudai.ShardFile(folder / "data.amudai.shard")
    lists, parts, first = TermLists(description.collation), [], 0
    for stripe in range(shard.num_stripes):
        table = shard.read(stripes=[stripe])
        for schema_id, column in enumerate(table.columns):
            values = column.combine_chunks().cast(pa.large_binary())
            rows = np.arange(first, first + table.num_rows)
            lists.add(values, rows, Tokenizer(queries["tokenizers"][schema_id]))
            lists.end_part()
            parts.append((stripe, schema_id))
        first += table.num_rows
    found = lists.finish()
    assert build_pages(found, parts).to_pylist() == amudai.read_table(description.terms.location).to_pylist()
    expected = amudai.read_table(description.positions.location)["position"]
    np.testing.assert_array_equal(found.positions, expected.to_numpy())


def golden_keys(name: str) -> np.ndarray[Any, Any]:
    path, _, value = name.partition("=")
    data = f"{path}:".encode() + bytes.fromhex(value)
    return hash_values(np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64), 0)


@pytest.mark.parametrize("folder", golden("hash"))
def test_hash_index_of_the_reference(folder: Path) -> None:
    description, rows, queries = described(folder)
    assert isinstance(description, HashDescription)
    reader = HashIndexReader(Storage(), description, rows)
    for name, expected in queries["expected_positions"].items():
        assert reader.find(golden_keys(name))[1].tolist() == expected, name
    names = list(queries["expected_positions"])
    keys = np.concatenate([golden_keys(name) for name in names])
    order = np.argsort(keys)
    places, found = reader.find(keys[order])
    for place, at in enumerate(order.tolist()):
        assert found[places == place].tolist() == queries["expected_positions"][names[at]]


@pytest.mark.parametrize("folder", golden("hash"))
def test_hash_index_like_that_of_the_reference(folder: Path) -> None:
    description, _, _ = described(folder)
    shard = amudai.ShardFile(folder / "data.amudai.shard")
    pairs, first = [], 0
    for stripe in range(shard.num_stripes):
        table = shard.read(stripes=[stripe])
        for field, column in zip(shard.shard_schema.fields, table.columns, strict=True):
            leaves = leaves_of_column(field, column.combine_chunks(), first)
            pairs += [keys_of_leaf(leaf) for leaf in leaves if has_keys(leaf.column.node)]
        first += table.num_rows
    keys, rows = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    count = len(description.partitions)
    made = [build_partition(keys, rows, count, ordinal) for ordinal in range(count)]
    for ours, theirs in zip(made, description.partitions, strict=True):
        expected = amudai.read_table(theirs.location)["bucket"].to_pylist()
        assert [by_hash(bucket) for bucket in ours["bucket"].to_pylist()] == [by_hash(bucket) for bucket in expected]


def by_hash(bucket: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(bucket, key=lambda entry: entry["hash"])


@pytest.mark.parametrize("folder", golden("text") + golden("hash"))
def test_descriptor_beside_a_shard(folder: Path) -> None:
    path, descriptor = folder / "data.amudai.shard", folder / "indexes" / "descriptor.pb"
    plain, indexed = amudai.ShardFile(path), amudai.ShardFile(path, indexes=[descriptor])
    name = plain.schema.names[0]
    for value in plain.read(columns=[name])[name].drop_null()[:20].to_pylist():
        filters = [(name, "=", value)]
        assert indexed.read(filters=filters) == plain.read(filters=filters)
    if folder.name.startswith("text"):
        found = indexed.search("msg", "request NOT (error OR warn)", columns=["msg"])
        texts = [text for text in plain.read()["msg"].to_pylist() if text is not None]
        words = [(text, {plain_texts.fold(word) for word in plain_texts.words(text)}) for text in texts]
        if folder.name == "text-case-insensitive":
            expected = [text for text, have in words if "REQUEST" in have and not have & {"ERROR", "WARN"}]
            assert found["msg"].to_pylist() == expected


# Terms --------------------------------------------------------------------------------------------------------------


def test_character_tables_agree_with_python() -> None:
    flags, upper = alphanumeric_flags(), upper_case()
    for number in range(0x110000):
        category = unicodedata.category(chr(number))
        if category[0] in "LN":
            assert flags[number], hex(number)
        elif category[0] in "PZ" or category in ("Cc", "Cs", "Sm", "Sc"):
            assert not flags[number], hex(number)
    for number in range(len(upper)):
        found = chr(number).upper()
        if len(found) == 1 and found != chr(number):
            assert upper[number] == ord(found), hex(number)
        elif unicodedata.category(chr(number)) == "Lu" or len(found) > 1:
            assert upper[number] == number, hex(number)


TEXTS = st.text(st.sampled_from("aB1.é\u0345\u093eßıŉ µ-_\U0001f170\U00010428\u4e2d\x00\u0301"), max_size=40)
ADDRESSES = st.lists(st.sampled_from(["1.2.3.4", "255.255.255.255", "256.1.1.1", "10.0.0", ".", " ", "x", "é"])).map(
    "".join
)
LONG = st.builds(
    lambda text, times: text * times, st.sampled_from(["a", "é", "中", "\U00010428", "aé"]), st.integers(20, 140)
)


@given(st.lists(TEXTS | ADDRESSES | LONG, max_size=8), st.sampled_from(list(Tokenizer)))
def test_terms_are_those_of_plain_python(texts: list[str], tokenizer: Tokenizer) -> None:
    data = [text.encode() for text in texts]
    offsets = np.append(0, np.cumsum([len(each) for each in data])).astype(np.int64)
    joined = b"".join(data)
    spans = find_terms(np.frombuffer(joined, np.uint8), offsets, tokenizer)
    found: list[list[str]] = [[] for _ in texts]
    for start, length, value in zip(spans.starts, spans.lengths, spans.values, strict=True):
        found[value].append(joined[start : start + length].decode())
    assert found == [plain_texts.terms(text, tokenizer) for text in texts]
    for text in texts:
        assert fold_bytes(text.encode()).decode() == plain_texts.fold(text)


@given(st.binary(max_size=40), st.sampled_from(list(Tokenizer)))
def test_bytes_that_are_not_text_have_terms_within_them(data: bytes, tokenizer: Tokenizer) -> None:
    spans = find_terms(np.frombuffer(data, np.uint8), np.array([0, len(data)], np.int64), tokenizer)
    assert ((spans.starts >= 0) & (spans.starts + spans.lengths <= len(data)) & (spans.lengths > 0)).all()
    fold_bytes(data)


def list_of(count: int) -> list[int]:
    """Many positions, some next to each other, others a few rows apart."""
    return [row for row in range(5 * count) if row % 7 not in (2, 3)][: 4 * count]


@given(
    st.lists(
        st.lists(st.integers(0, 2000), unique=True, min_size=1).map(sorted) | st.integers(65, 400).map(list_of),
        max_size=6,
    )
)
def test_position_lists(lists: list[list[int]]) -> None:
    stops = np.cumsum([len(each) for each in lists], dtype=np.int64)
    starts = np.append(0, stops)[: len(stops)]
    positions = np.array([row for each in lists for row in each], np.uint32)
    encoded, kinds, ends = encode_positions(positions, starts, stops)
    for each, kind, start, end in zip(lists, kinds, np.append(0, ends), ends, strict=False):
        found, is_exact = decode_positions(encoded[start:end], kind, 4000, location="here")
        assert found.tolist() == each if is_exact else set(found.tolist()) >= set(each)


@pytest.mark.parametrize(
    ("encoded", "kind"),
    [([1, 1], 0), ([5, 4], 0), ([10], 0), ([1], 1), ([1, 1], 1), ([1, 3, 2, 4], 2), ([1, 11], 1), ([1, 2], 3)],
)
def test_bad_position_lists(encoded: list[int], kind: int) -> None:
    with pytest.raises(FormatError, match="list of positions"):
        decode_positions(np.array(encoded, np.uint64), kind, 10, location="here")


# Shards with indexes ------------------------------------------------------------------------------------------------

LINES = [
    "GET /health from 10.0.0.1 took 3 ms",
    "Connection reset by peer 10.0.0.12",
    None,
    "",
    "reset: connection timeout",
    "TIMEOUT while reading disk0",
    "straße Ünïcode ÜNÏCODE",
    "x" * 300,
]


@functools.cache
def log_table(rows: int = 9000) -> pa.Table:
    rng = np.random.default_rng(7)
    return pa.table(
        {
            "id": pa.array([f"{number:08x}" for number in rng.permutation(rows)]),
            "number": pa.array(rng.integers(-5, 5, rows), pa.int16(), mask=rng.random(rows) < 0.1),
            "at": pa.array(rng.integers(0, 50, rows) * 1_000_000, pa.timestamp("us")),
            "flag": pa.array(rng.random(rows) < 0.5),
            "message": pa.array([LINES[i] for i in rng.integers(0, len(LINES), rows)]),
            "tags": pa.array([[f"t{i}" for i in range(n)] if n else None for n in rng.integers(0, 4, rows)]),
            "where": pa.array([{"host": f"h {n}"} if n else None for n in rng.integers(0, 4, rows)]),
        }
    )


@functools.cache
def log_rows() -> list[dict[str, Any]]:
    return log_table().to_pylist()


INDEXES = [
    amudai.HashIndex(["id", "number", "at", "flag", "tags.item", "where.host"]),
    amudai.TextIndex({"message": "unicode-log", "tags.item": "trivial", "where.host": "unicode-word"}),
]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> dict[str, amudai.ShardFile]:
    """The same rows without indexes, with them, and with them over a Parquet file."""
    folder, table = tmp_path_factory.mktemp("indexed"), log_table()
    amudai.write_table(table, folder / "plain.amudai.shard", stripe_rows=4096)
    written = amudai.write_table(table, folder / "indexed.amudai.shard", stripe_rows=4096, indexes=INDEXES)
    assert len(written.index_files) == 4
    pq.write_table(table, folder / "rows.parquet", row_group_size=3000)
    amudai.write_over_parquet([folder / "rows.parquet"], folder / "over.amudai.shard", indexes=INDEXES)
    return {name: amudai.ShardFile(folder / f"{name}.amudai.shard") for name in ("plain", "indexed", "over")}


FILTERS: list[Any] = [
    [("id", "=", "00000011")],
    [("id", "==", "not there")],
    [("id", "in", ["00000011", "00000012", "x"])],
    [("number", "=", 3), ("flag", "=", True)],
    [("number", "=", 70_000)],
    [("id", "=", "00000011"), ("number", "<", 0)],
    [[("id", "=", "00000011")], [("id", "=", "00000100"), ("flag", "=", False)]],
    [[("id", "=", "00000011")], [("number", ">", 3)]],
    [("id", "in", [])],
    [("id", "!=", "00000011"), ("number", "=", -5)],
]


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_give_the_rows_of_an_unindexed_read(shards: dict[str, amudai.ShardFile], filters: Any) -> None:
    expected = shards["plain"].read(filters=filters)
    assert shards["indexed"].read(filters=filters) == expected
    assert shards["over"].read(filters=filters) == expected
    batches = shards["indexed"].iter_batches(100, filters=filters, columns=["id"])
    assert [row for batch in batches for row in batch["id"].to_pylist()] == expected["id"].to_pylist()


def test_a_filter_by_an_index_reads_few_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    ids = pa.array([number.tobytes().hex() for number in rng.integers(0, 256, (200_000, 16), dtype=np.uint8)])
    path, storage = tmp_path / "ids.amudai.shard", Storage()
    amudai.write_table(pa.table({"id": ids}), path, indexes=[amudai.HashIndex(["id"])])
    before = storage.metrics.counts()
    table = amudai.read_table(path, filters=[("id", "=", ids[77].as_py())], storage=storage)
    assert table["id"].to_pylist() == [ids[77].as_py()]
    read = storage.metrics.counts() - before
    assert read.bytes_read < path.stat().st_size / 5
    assert read.requests < 12


QUERIES = {
    "timeout": lambda have, _: "TIMEOUT" in have,
    "connection reset": lambda have, _: {"CONNECTION", "RESET"} <= have,
    '"connection reset"': lambda _, text: "CONNECTION RESET" in text,
    "10.0.0.1": lambda _, text: "10.0.0.1 " in text,
    "10.0.0.1*": lambda _, text: "10.0.0.1" in text,
    "10.0.*": lambda _, text: "10.0.0." in text,
    "12": lambda have, _: "12" in have,
    '"peer 10.0.0.12"': lambda _, text: "PEER 10.0.0.12" in text,
    "disk*": lambda have, _: "DISK0" in have,
    "took OR timeout": lambda have, _: have & {"TOOK", "TIMEOUT"},
    "NOT reset": lambda have, _: "RESET" not in have,
    "(took OR reset) NOT (peer OR nothing)": lambda have, _: have & {"TOOK", "RESET"} and "PEER" not in have,
    "STRASSE OR ünïcode": lambda have, _: "ÜNÏCODE" in have,
    "x" * 300: lambda _, text: "XXX" in text,
    "nothing": lambda _have, _text: False,
}


@pytest.mark.parametrize("query", QUERIES)
def test_search_finds_what_plain_python_finds(shards: dict[str, amudai.ShardFile], query: str) -> None:
    rows = log_rows()
    expected = [
        row["id"]
        for row in rows
        if row["message"] is not None
        and QUERIES[query](
            {plain_texts.fold(word) for word in plain_texts.words(row["message"])}, plain_texts.fold(row["message"])
        )
    ]
    for name in ("indexed", "over"):
        assert shards[name].search("message", query, columns=["id"])["id"].to_pylist() == expected
    if not query[0].isdigit() and "10." not in query:  # without an index, an address is a phrase
        assert shards["plain"].search("message", query, columns=["id"])["id"].to_pylist() == expected
    assert shards["indexed"].search("message", query, limit=3).num_rows == min(3, len(expected))


def test_search_in_lists_and_structs(shards: dict[str, amudai.ShardFile]) -> None:
    with_tag = [row["id"] for row in log_rows() if "t1" in (row["tags"] or [])]
    at_host = [row["id"] for row in log_rows() if (row["where"] or {}).get("host") == "h 2"]
    for name in ("indexed", "over"):
        assert shards[name].search("tags.item", "T1", columns=["id"])["id"].to_pylist() == with_tag
        assert shards[name].search("where.host", "2", columns=["id"])["id"].to_pylist() == at_host


def test_rows_marked_as_deleted_are_not_found(tmp_path: Path) -> None:
    marks = pa.field("gone", pa.bool_(), metadata={INTERNAL_KIND_KEY: InternalKind.DELETED_RECORD.encode()})
    schema = pa.schema([pa.field("text", pa.string()), marks])
    table = pa.table([["one", "two", "one", "one"], [True, False, False, True]], schema=schema)
    indexes = [amudai.HashIndex(["text"]), amudai.TextIndex(["text"])]
    amudai.write_table(table, tmp_path / "a.amudai.shard", indexes=indexes)
    shard = amudai.ShardFile(tmp_path / "a.amudai.shard")
    assert shard.search("text", "ONE").to_pydict() == {"text": ["one"]}
    assert shard.search("text", "one NOT two OR two").to_pydict() == {"text": ["two", "one"]}
    assert shard.read(filters=[("text", "=", "one")]).to_pydict() == {"text": ["one"]}


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "swapped"])
def test_a_lost_index_costs_time_and_nothing_else(tmp_path: Path, damage: str) -> None:
    table = log_table(6000)
    path = tmp_path / "log.amudai.shard"
    written = amudai.write_table(table, path, indexes=INDEXES)
    files = [Path(file) for file in written.index_files]
    contents = [file.read_bytes() for file in files]
    for file, content, other in zip(files, contents, [*contents[1:], contents[0]], strict=True):
        file.unlink()
        if damage != "missing":
            file.write_bytes({"empty": b"", "cut": content[:-100], "swapped": other}[damage])
    shard = amudai.ShardFile(path)
    found = shard.read(filters=[("id", "=", "00000011")], columns=["id"])
    assert found["id"].to_pylist() == ["00000011"]
    expected = [row["id"] for row in table.to_pylist() if "TIMEOUT" in (row["message"] or "").upper()]
    assert shard.search("message", "timeout", columns=["id"])["id"].to_pylist() == expected


def test_an_unknown_index_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.amudai.shard"
    amudai.write_table(log_table(100), path)
    (tmp_path / "other.pb").write_bytes(IndexDescriptor(index_type="of-the-future").SerializeToString())
    shard = amudai.ShardFile(path, indexes=[tmp_path / "other.pb"])
    assert shard.read(filters=[("id", "=", "00000011")]).num_rows == 1


def test_an_empty_shard_with_indexes(tmp_path: Path) -> None:
    path = tmp_path / "empty.amudai.shard"
    amudai.write_table(log_table(10).slice(0, 0), path, indexes=INDEXES)
    shard = amudai.ShardFile(path)
    assert shard.search("message", "timeout").num_rows == 0
    assert shard.read(filters=[("id", "=", "x")]).num_rows == 0


def test_a_writer_that_fails_leaves_no_index(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b"]})
    writer = amudai.ShardWriter(tmp_path / "a.amudai.shard", table.schema, indexes=[amudai.TextIndex(["text"])])
    writer.write(table)
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (lambda: amudai.HashIndex(["nothing"]), NotFoundError, "no values at 'nothing': there are id, number"),
        (lambda: amudai.HashIndex([]), SchemaError, "needs columns"),
        (lambda: amudai.HashIndex(["id"], partitions=3), SchemaError, "power of two"),
        (lambda: amudai.HashIndex(["price"]), UnsupportedError, "'price' is FLOAT64"),
        (lambda: amudai.TextIndex(["number"]), UnsupportedError, "only strings"),
        (lambda: amudai.TextIndex({"id": "words"}), SchemaError, "no tokenizer 'words', only unicode-word"),
        (lambda: amudai.TextIndex(["id"], collation="c"), SchemaError, "no collation 'c'"),
        (lambda: amudai.TextIndex("id"), SchemaError, "columns"),
    ],
)
def test_indexes_that_cannot_be(tmp_path: Path, index: Any, error: type[Exception], message: str) -> None:
    table = pa.table({"id": ["a"], "number": [1], "price": [1.0]})
    with pytest.raises(error, match=message):
        amudai.write_table(table, tmp_path / "a.amudai.shard", indexes=[index()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "lacks a word at its end"),
        ("a OR", "lacks a word at its end"),
        ("AND a", "lacks a word before 'AND'"),
        ("(a", "bracket without its end"),
        ("a)", "bracket too many"),
        ('"a', "quote without its end"),
        ("a AND -", "no word that the tokenizer unicode-log knows"),
        ("(" * 100 + "a", "nests deeper"),
        (7, "a search is a text"),
    ],
)
def test_bad_queries(shards: dict[str, amudai.ShardFile], query: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        shards["indexed"].search("message", query)


WORDS = st.sampled_from(["a", "A", "b", "ab", "Ab", "1.2.3.4", "é", "É", "0"])


@settings(max_examples=30)
@given(
    st.lists(st.none() | st.lists(WORDS, max_size=6).map(" ".join), min_size=1, max_size=40),
    st.sampled_from(
        ["a", "b", "a b", '"a b"', "a*", "NOT a", "a OR b", "é", '"ab a" OR (b NOT 0)', "1.2.3.4", '"a 1.2.3.4"']
    ),
    st.sampled_from(list(Tokenizer)),
    st.sampled_from(list(Collation)),
    st.integers(1, 7),
)
def test_indexed_search_finds_what_the_values_say(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str | None],
    query: str,
    tokenizer: Tokenizer,
    collation: Collation,
    stripe_rows: int,
) -> None:
    folder = tmp_path_factory.mktemp("search")
    table = pa.table({"text": pa.array(texts, pa.string()), "row": range(len(texts))})
    index = amudai.TextIndex({"text": tokenizer}, collation=collation)
    written = amudai.write_table(table, folder / "a.amudai.shard", indexes=[index], stripe_rows=stripe_rows)
    found = amudai.ShardFile(folder / "a.amudai.shard").search("text", query)
    for file in written.index_files:  # without them, the tokenizer is known and every value is looked at
        Path(file).unlink()
    assert amudai.ShardFile(folder / "a.amudai.shard").search("text", query) == found


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 40), st.integers(0, 200)), max_size=120),
    st.sampled_from([1, 2, 4]),
)
def test_partitions_are_those_of_a_plain_twin(pairs, partitions):
    """Keys that all differ are ordered in their buckets, others before they get there."""
    keys = np.array([key for key, _ in pairs], np.uint64)
    rows = np.array([row for _, row in pairs], np.int64)
    for ordinal in range(partitions):
        mine = [(key, row) for key, row in pairs if key * partitions >> 64 == ordinal]
        count = 2
        while count < len({key for key, _ in mine}) // 2:
            count *= 2
        expected: list[list[dict[str, object]]] = [[] for _ in range(count)]
        for key in sorted({key for key, _ in mine}):
            found = sorted({row for other, row in mine if other == key})
            expected[key % count].append({"hash": key, "positions": found})
        made = build_partition(keys, rows, partitions, ordinal)
        assert made.column(0).to_pylist() == expected
        assert is_of_unique_keys(made) == (len({key for key, _ in mine}) == len(set(mine)))
