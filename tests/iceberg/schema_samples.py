"""Random types, schemas and values, of everything that versions 1 to 3 allow."""

from __future__ import annotations

import itertools
from decimal import Context, Decimal

from hypothesis import strategies as st

from skerry.iceberg.metadata.schema import Schema, assign_fresh_schema_ids
from skerry.iceberg.metadata.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

PLAIN = [
    BooleanType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    TimestampNanoType(),
    TimestamptzNanoType(),
    StringType(),
    UUIDType(),
    BinaryType(),
    FixedType(16),
    DecimalType(1, 0),
    DecimalType(38, 38),
    DecimalType(9, 2),
]
"""Types whose columns may have defaults."""
OTHERS = [UnknownType(), GeometryType(), GeographyType()]
OF_VERSION_3 = [*OTHERS, GeometryType("srid:4326"), GeographyType("srid:1", "karney"), VariantType()]
"""Types that PyIceberg does not have, or names otherwise, are among them."""

_EXACT = Context(prec=80)
_DAY_US = 86_400_000_000
_PHYSICAL = {
    BooleanType: st.booleans(),
    IntegerType: st.integers(-(2**31), 2**31 - 1),
    LongType: st.integers(-(2**63), 2**63 - 1),
    FloatType: st.floats(width=32, allow_nan=False, allow_infinity=False),
    DoubleType: st.floats(allow_nan=False, allow_infinity=False),
    DateType: st.integers(-719162, 2932896),  # years 1 to 9999
    TimeType: st.integers(0, _DAY_US - 1),
    TimestampType: st.integers(-719162 * _DAY_US, 2932896 * _DAY_US),
    TimestamptzType: st.integers(-719162 * _DAY_US, 2932896 * _DAY_US),
    TimestampNanoType: st.integers(-(2**63), 2**63 - 1),
    TimestamptzNanoType: st.integers(-(2**63), 2**63 - 1),
    StringType: st.text(max_size=5),
    UUIDType: st.binary(min_size=16, max_size=16),
    BinaryType: st.binary(max_size=5),
}


def values(type_):
    """Physical values of a type."""
    if isinstance(type_, FixedType):
        return st.binary(min_size=type_.length, max_size=type_.length)
    if isinstance(type_, DecimalType):
        limit = 10**type_.precision - 1
        return st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-type_.scale, _EXACT))
    if isinstance(type_, ListType):
        return st.lists(optional(type_.element_type), max_size=3).map(tuple)
    if isinstance(type_, MapType):
        pairs = st.tuples(values(type_.key_type), optional(type_.value_type))
        return st.lists(pairs, max_size=3).map(tuple)
    if isinstance(type_, StructType):
        pairs = [st.tuples(st.just(field.field_id), optional(field.field_type)) for field in type_.fields]
        return st.tuples(*pairs)
    return _PHYSICAL[type(type_)]


def optional(type_):
    return st.none() | values(type_)


def _may(type_, required):
    """Whether a field is required that would be, if its type were known."""
    return required and not isinstance(type_, UnknownType)


NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="."), min_size=1, max_size=4)


def types(primitives):
    """Types up to three levels deep; their ids are assigned by `schemas`."""

    def nested(inner):
        fields = st.lists(st.tuples(NAMES, inner, st.booleans()), min_size=1, max_size=3, unique_by=lambda one: one[0])
        return st.one_of(
            fields.map(lambda found: StructType(*(NestedField(0, *one[:2], _may(*one[1:])) for one in found))),
            st.tuples(inner, st.booleans()).map(lambda one: ListType(0, one[0], _may(*one))),
            st.tuples(inner.filter(lambda key: _may(key, True)), inner, st.booleans()).map(
                lambda one: MapType(0, one[0], 0, one[1], _may(*one[1:]))
            ),
        )

    return st.recursive(st.sampled_from(primitives), nested, max_leaves=5)


@st.composite
def schemas(draw, *, all_types=False, defaults=False):
    """Schemas with unique ids, some of them with docs and defaults."""
    kinds = types([*PLAIN, *(OF_VERSION_3 if all_types else OTHERS)])
    columns = draw(st.lists(st.tuples(NAMES, kinds), min_size=1, max_size=4, unique_by=lambda one: one[0]))
    counter = itertools.count(draw(st.integers(1, 1000)))
    found = []
    for name, kind in columns:
        number = next(counter)
        type_ = assign_fresh_schema_ids(kind, counter.__next__)
        default = None
        if defaults and type_ in PLAIN:
            default = draw(optional(type_))
        doc = draw(st.none() | st.text(max_size=3))
        found.append(NestedField(number, name, type_, _may(type_, draw(st.booleans())), doc, default, default))
    identifier = [
        field.field_id
        for field in found
        if field.required and field.field_type.is_primitive and not isinstance(field.field_type, FloatType | DoubleType)
    ]
    return Schema(*found, schema_id=draw(st.integers(0, 9)), identifier_field_ids=identifier[:1])
