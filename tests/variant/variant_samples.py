"""Values of every type, random ones, and columns of them."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from skerry.variant import VARIANT, Primitive, Typed, decode_variant
from skerry.variant.encoding import VariantEncoder

PRIMITIVES: list[Any] = [
    None,
    True,
    False,
    1,
    -5,
    300,
    70_000,
    2**40,
    -(2**63),
    2**70,
    1.5,
    float("inf"),
    decimal.Decimal("1.5"),
    decimal.Decimal("123.456"),
    decimal.Decimal("1E+20"),
    decimal.Decimal("-0.00000000000000000000000000000000000001"),
    "",
    "abc",
    "é" * 31,
    "x" * 64,
    b"",
    b"q" * 70,
    dt.date(2020, 1, 1),
    dt.date(1957, 11, 7),
    dt.datetime(2020, 1, 1, 2, 3, 4, 5),
    dt.datetime(1957, 1, 1, tzinfo=dt.UTC),
    dt.time(1, 2, 3, 4),
    uuid.UUID(int=2**100),
    Typed(Primitive.FLOAT, 0.5),
    Typed(Primitive.TIMESTAMP_NS, 5),
    Typed(Primitive.TIMESTAMP_NTZ_NS, -1),
]
_NAMES = ["a", "b", "c", "é", "zz", ""]
_SHREDDED = [
    pa.bool_(),
    pa.int8(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.binary(),
    pa.date32(),
    pa.time64("us"),
    pa.decimal128(9, 2),
    pa.decimal128(30, 4),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns"),
    pa.timestamp("ns", "UTC"),
    pa.uuid(),
]
_NUMBERS = (
    Primitive.INT8,
    Primitive.INT16,
    Primitive.INT32,
    Primitive.INT64,
    Primitive.DECIMAL4,
    Primitive.DECIMAL8,
    Primitive.DECIMAL16,
)


def random_value(rng: random.Random, depth: int = 3) -> Any:
    """A value of any shape; some objects have dozens of fields."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(PRIMITIVES)
    if kind < 0.6:
        return [random_value(rng, depth - 1) for _ in range(rng.randrange(4))]
    names = _NAMES + [f"f{i}" for i in range(rng.choice([2, 30, 300]))]
    return {rng.choice(names): random_value(rng, depth - 1) for _ in range(rng.choice([0, 1, 3, 20]))}


def random_type(rng: random.Random, depth: int = 3) -> pa.DataType:
    """A type that variants can be shredded as."""
    kind = rng.random()
    if depth == 0 or kind < 0.4:
        return rng.choice(_SHREDDED)
    if kind < 0.55:
        return pa.list_(random_type(rng, depth - 1))
    names = rng.sample([*_NAMES, "f1"], rng.randrange(1, 5))
    return pa.struct([(name, random_type(rng, depth - 1)) for name in names])


def column(values: Iterable[Any]) -> pa.StructArray:
    """A column of variants; `...` stands for a null."""
    encoder = VariantEncoder()
    rows = [None if value is ... else encoder.encode(value) for value in values]
    return pa.array([None if row is None else {"metadata": row[0], "value": row[1]} for row in rows], VARIANT)


def decoded(array: pa.Array) -> list[Any]:
    """The values of a column, exactly, `...` for nulls."""
    return [
        ... if row is None else decode_variant(row["metadata"], row["value"], typed=True) for row in array.to_pylist()
    ]


def comparable(value: Any) -> Any:
    """A value in which all exact numbers of one value are equal, as the format has it, and NaN is itself."""
    if isinstance(value, Typed):
        if value.type in _NUMBERS:
            number = decimal.Decimal(value.value)
            return "number", number.normalize(decimal.Context(prec=80)) if number else decimal.Decimal(0)
        return value.type, repr(value.value)
    if isinstance(value, dict):
        return {name: comparable(field) for name, field in value.items()}
    return [comparable(element) for element in value] if isinstance(value, list) else value
