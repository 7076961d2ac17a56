"""Columns encoded as records, beside fastavro's encoding of the same rows."""

from __future__ import annotations

import io
import itertools
import math
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.avro import ContainerEncoder, decimal_bytes, read_columns
from skerry.avro.encoding import encode_rows
from skerry.errors import SchemaError, UnsupportedError

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
UUID_BYTES = {"type": "fixed", "name": "u", "size": 16}
DECIMAL = {"type": "fixed", "name": "d", "size": 8, "logicalType": "decimal", "precision": 18, "scale": 3}


def item(type_: pa.DataType, *, nullable: bool = True) -> pa.Field:
    return pa.field("element", type_, nullable=nullable)


# Arrow type, Avro type, values, and how fastavro takes a value
TYPES: dict[str, tuple[pa.DataType, Any, st.SearchStrategy[Any], Any]] = {
    "boolean": (pa.bool_(), "boolean", st.booleans(), None),
    "int": (pa.int32(), "int", INTS, None),
    "long": (pa.int64(), "long", LONGS, None),
    "small numbers": (pa.int64(), "long", st.integers(-200, 200), None),
    "float": (pa.float32(), "float", st.floats(width=32, allow_nan=False), None),
    "double": (pa.float64(), "double", st.floats(allow_nan=False), None),
    "string": (pa.string(), "string", st.text(max_size=200), None),
    "bytes": (pa.binary(), "bytes", st.binary(max_size=200), None),
    "fixed": (pa.binary(16), UUID_BYTES, st.binary(min_size=16, max_size=16), None),
    "uuid": (pa.uuid(), UUID_BYTES, st.binary(min_size=16, max_size=16), None),
    "decimal": (pa.decimal128(18, 3), DECIMAL, st.decimals(-(10**14), 10**14, places=3), None),
    "date": (pa.date32(), "int", INTS, None),
    "time": (pa.time64("us"), "long", st.integers(0, 86_399_999_999), None),
    "timestamp": (pa.timestamp("us", "UTC"), "long", LONGS, None),
    "list": (pa.list_(item(pa.int64())), ["null", "long"], st.lists(st.none() | LONGS, max_size=5), "array"),
    "list of lists": (
        pa.list_(item(pa.list_(item(pa.string(), nullable=False)), nullable=False)),
        {"type": "array", "items": "string"},
        st.lists(st.lists(st.text(max_size=5), max_size=3), max_size=3),
        "array",
    ),
    "map": (
        pa.map_(pa.string(), pa.int32()),
        {"type": "map", "values": ["null", "int"]},
        st.dictionaries(st.text(max_size=5), st.none() | INTS, max_size=4).map(lambda value: list(value.items())),
        dict,
    ),
    "struct": (
        pa.struct([("x", pa.int64()), pa.field("y", pa.string(), nullable=False)]),
        {
            "type": "record",
            "name": "s",
            "fields": [{"name": "x", "type": ["null", "long"]}, {"name": "y", "type": "string"}],
        },
        st.fixed_dictionaries({"x": st.none() | LONGS, "y": st.text(max_size=9)}),
        None,
    ),
}


def by_fastavro(schema: dict[str, Any], records: list[dict[str, Any]]) -> list[bytes]:
    parsed, result = fastavro.parse_schema(schema), []
    for record in records:
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, parsed, record)
        result.append(buffer.getvalue())
    return result


@pytest.mark.parametrize("name", TYPES)
@given(data=st.data())
def test_every_type_is_encoded_as_fastavro_does(name, data):
    arrow, avro, values, form = TYPES[name]
    if form == "array":
        avro = {"type": "array", "items": avro}
    column = data.draw(st.lists(st.none() | values, max_size=12))
    start = data.draw(st.integers(0, len(column)))
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "before", "type": "int"}, {"name": "v", "type": ["null", avro]}],
    }
    storage = pa.binary(16) if arrow == pa.uuid() else arrow
    array = pa.array(column, storage)
    array = pa.ExtensionArray.from_storage(arrow, array) if arrow == pa.uuid() else array
    fields = [pa.field("before", pa.int32(), nullable=False), pa.field("v", arrow)]
    batch = pa.record_batch([pa.array(range(len(column)), pa.int32()), array], schema=pa.schema(fields)).slice(start)
    found, starts = encode_rows(batch)
    records = [
        {"before": row, "v": form(value) if form is dict and value is not None else value}
        for row, value in enumerate(column)
    ][start:]
    expected = by_fastavro(schema, records)
    assert [found[a:b].tobytes() for a, b in itertools.pairwise(starts)] == expected


def test_nan_infinity_and_zeros():
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0]
    found, _ = encode_rows(pa.record_batch({"x": values}, pa.schema([pa.field("x", pa.float64(), nullable=False)])))
    assert found.tobytes() == np.array(values).tobytes()


@pytest.mark.parametrize("value", [0, -1, 1, 63, 64, -64, -65, 2**63 - 1, -(2**63)])
def test_numbers_at_the_edges_of_their_lengths(value):
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    found, _ = encode_rows(pa.record_batch({"x": [value]}, schema))
    avro = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long"}]}
    assert [found.tobytes()] == by_fastavro(avro, [{"x": value}])


def test_the_widest_decimals():
    type_ = pa.decimal128(38, 0)
    values = [Decimal(10**38 - 1), Decimal(1 - 10**38), Decimal(-1), None]
    found, starts = encode_rows(pa.record_batch([pa.array(values, type_)], names=["d"]))
    assert decimal_bytes(38) == 16
    assert found[1:17].tobytes() == (10**38 - 1).to_bytes(16, "big", signed=True)
    assert np.diff(starts).tolist() == [17, 17, 17, 1]


def test_a_null_where_there_must_be_none():
    schema = pa.schema([pa.field("x", pa.int64(), nullable=False)])
    with pytest.raises(SchemaError, match="column 'x' is required, but null"):
        encode_rows(pa.record_batch([pa.array([1, None])], schema=schema))


def test_a_required_member_of_a_null_struct():
    schema = pa.schema([("s", pa.struct([pa.field("x", pa.int64(), nullable=False)]))])
    found, _ = encode_rows(pa.record_batch([pa.array([None, {"x": 1}], schema.field(0).type)], schema=schema))
    assert found.tobytes() == b"\x00\x02\x02"


def test_what_lies_hidden_below_nulls():
    """A null list may have items in Arrow, even such as there must not be."""
    type_ = pa.list_(pa.field("element", pa.int64(), nullable=False))
    array = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4], pa.int32()), pa.array([1, None, 7, 2]), type=type_, mask=pa.array([False, True, False])
    )
    found, starts = encode_rows(pa.record_batch([array], names=["x"]))
    expected = [b"\x02\x02\x02\x00", b"\x00", b"\x02\x02\x04\x00"]
    assert [found[a:b].tobytes() for a, b in itertools.pairwise(starts)] == expected


def test_types_without_an_encoding():
    with pytest.raises(UnsupportedError, match=r"Arrow type large_list.* cannot be written to Avro files"):
        encode_rows(pa.record_batch([pa.array([[1]], pa.large_list(pa.int64()))], names=["x"]))


def test_blocks_end_at_their_size():
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": ["null", "string"]}]}
    encoder = ContainerEncoder(schema, codec="null")
    rows = pa.table({"x": ["some text"] * 100 + ["x" * 500] + [None] * 40_000})
    blocks = list(encoder.encode_columns(rows, block_bytes=300))
    assert max(map(len, blocks)) < 1200
    assert read_columns(encoder.header + b"".join(blocks)).column("x").to_pylist() == rows["x"].to_pylist()
    assert list(encoder.encode_columns(rows.slice(0, 0))) == []


def test_no_columns_and_columns_of_nulls():
    data, starts = encode_rows(pa.record_batch([pa.nulls(3)], names=["n"]))
    assert (len(data), starts.tolist()) == (0, [0, 0, 0, 0])
