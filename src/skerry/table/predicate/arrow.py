"""Predicates and PyArrow expressions: parsing expressions as conditions, and converting predicates to expressions.

PyArrow has no public way to inspect an expression except Substrait, which lacks several functions and loses options.
The form in which PyArrow itself pickles expressions is exact: a record batch whose schema metadata contains the tree in
prefix order (`call`, `field_ref`, `literal`, …) and whose columns contain literals and options.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import UnsupportedError
from skerry.table.predicate.expressions import compute
from skerry.table.predicate.literals import Family, Literal, LiteralKind, family_of
from skerry.table.predicate.nodes import (
    And,
    Column,
    Comparison,
    Constant,
    Holds,
    In,
    IntersectsExtent,
    IsMinusZero,
    IsNaN,
    IsNull,
    Operator,
    Or,
    Predicate,
    StartsWith,
)
from skerry.table.predicate.syntax import Call, Form, Name, Syntax, Value
from skerry.table.rows.values import arrow_storage
from skerry.variant import is_variant, variant_get
from skerry.variant.paths import normalized_path
from skerry.variant.stored import stored_get
from skerry.wkb import boxes_of, globe_boxes_of

__all__ = [
    "arrow_array",
    "arrow_scalar",
    "field_references",
    "parse_expression",
    "row_mask",
    "values_of",
]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


# ---- rows of a predicate ----


def row_mask(predicate: Predicate, batch: pa.RecordBatch) -> pa.BooleanArray:
    """Test the rows of a batch.

    Args:
        predicate: A predicate on columns of the batch, which are found by name.
        batch: The rows.

    Returns:
        bool[rows], true for the rows of the predicate, false or null for the others.
    """
    match predicate:
        case Constant(value):
            return pa.repeat(value, batch.num_rows)
        case And(children):
            return _all_of(children, batch)
        case Or(children):
            return functools.reduce(pc.or_kleene, (row_mask(child, batch) for child in children))
        case Holds(expression):
            holds = compute(expression, lambda column: values_of(column, batch))
            return pa.repeat(holds, batch.num_rows) if isinstance(holds, pa.Scalar) else holds
        case _:
            return _test(predicate, values_of(predicate.column, batch))


def _all_of(children: tuple[Predicate, ...], batch: pa.RecordBatch) -> pa.BooleanArray:
    """Rows for which all children hold; expressions are computed last, only for rows that the others leave."""
    plain = [row_mask(child, batch) for child in children if not _computes(child)]
    mask = functools.reduce(pc.and_kleene, plain) if plain else None
    for child in filter(_computes, children):
        if mask is None:
            mask = row_mask(child, batch)
            continue
        left = pc.fill_null(mask, False)
        mask = pc.replace_with_mask(left, left, pc.fill_null(row_mask(child, batch.filter(left)), False))
    assert mask is not None
    return mask


def _computes(predicate: Predicate) -> bool:
    match predicate:
        case And(children) | Or(children):
            return any(map(_computes, children))
        case _:
            return isinstance(predicate, Holds)


def values_of(column: Column, batch: pa.RecordBatch) -> pa.Array:
    """The values of a column, or those inside of its variants, of a batch where it has the table's name."""
    values = batch.column(column.path[0])
    if len(column.path) > 1:
        values = pc.struct_field(values, list(column.path[1:]))
    if column.inside is None:
        return values
    if is_variant(values.type):
        return variant_get(values, normalized_path(column.inside), column.type)
    return stored_get(values, column.inside, column.type)


def _test(predicate: Predicate, values: pa.Array) -> pa.BooleanArray:
    """Test the values of the column of a condition without children."""
    match predicate:
        case IsNull(_, negated):
            return pc.is_valid(values) if negated else pc.is_null(values)
        case IsNaN(_, negated):
            is_nan = pc.is_nan(values)
            return pc.invert(is_nan) if negated else is_nan
        case IntersectsExtent():
            return _intersection(values, predicate)
        case IsMinusZero(column, negated):
            minus_zero = arrow_array((-0.0,), column.type)  # sets compare bits
            is_in = pc.is_in(values, value_set=minus_zero)
            return pc.and_kleene(pc.invert(is_in), pc.is_valid(values)) if negated else is_in
        case StartsWith(_, prefix, negated):
            starts = pc.starts_with(values, pattern=prefix)
            return pc.invert(starts) if negated else starts
        case In(column, among, negated):
            return _membership(_storage_of(values, column), among, column.type, negated)
        case Comparison(column, operator, value):
            return _comparison(_storage_of(values, column), operator, value, column.type)


def _intersection(values: pa.Array, predicate: IntersectsExtent) -> pa.BooleanArray:
    globe = predicate.globe
    meets = (boxes_of(values) if globe is None else globe_boxes_of(values, globe)).meet(predicate.box)
    is_null = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    return pa.array(~meets if predicate.negated else meets, pa.bool_(), mask=is_null)


def _comparison(values: pa.Array, operator: Operator, value: Any, type_: pa.DataType) -> pa.BooleanArray:
    compared = _COMPARE[operator](values, arrow_scalar(value, type_))
    if family_of(type_) is Family.FLOAT and operator in (Operator.GT, Operator.GE):
        return pc.or_kleene(compared, pc.is_nan(values))
    return compared


def _membership(values: pa.Array, among: tuple[Any, ...], type_: pa.DataType, negated: bool) -> pa.BooleanArray:
    if family_of(type_) is Family.FLOAT and 0.0 in among:
        among = (*among, -0.0, 0.0)  # sets compare bits
    is_in = pc.is_in(values, value_set=arrow_array(among, type_))
    return pc.and_kleene(pc.invert(is_in), pc.is_valid(values)) if negated else is_in


def _storage_of(values: pa.Array, column: Column) -> pa.Array:
    storage = arrow_storage(column.type)
    return values if storage == column.type else values.cast(storage)


_COMPARE: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQ: pc.equal,
    Operator.NE: pc.not_equal,
    Operator.LT: pc.less,
    Operator.LE: pc.less_equal,
    Operator.GT: pc.greater,
    Operator.GE: pc.greater_equal,
}


def arrow_scalar(value: Any, type_: pa.DataType) -> pa.Scalar:
    """A predicate's value as a scalar of the column's storage type."""
    return pa.scalar(value, arrow_storage(type_))


def arrow_array(values: tuple[Any, ...], type_: pa.DataType) -> pa.Array:
    """A predicate's values as an array of the column's storage type; None is null."""
    return pa.array(values, arrow_storage(type_))


# ---- expressions to conditions ----


def parse_expression(expression: pc.Expression) -> Syntax:
    """Parse a PyArrow expression as a condition.

    Supported are comparisons of a field with a literal, `&`, `|`, `~`, `isin`, `is_null`, `is_valid`, `is_nan`,
    `starts_with` and boolean literals.

    Args:
        expression: Fields are referred to by name.

    Returns:
        Its syntax tree, to be bound with `ieee=True`.

    Raises:
        UnsupportedError: It contains something else; the message names it.
    """
    try:
        _, (buffer,) = expression.__reduce__()
        with pa.ipc.open_file(buffer) as file:
            batch = file.get_batch(0)
        return _Reader(batch, _metadata_items(batch.schema)).node()
    except (pa.ArrowException, TypeError, ValueError, IndexError) as error:
        raise UnsupportedError(f"the expression {expression} cannot be parsed: {error}") from None


def field_references(expression: pc.Expression) -> frozenset[tuple[str, ...]]:
    """The fields that any PyArrow expression refers to, as paths of names from the top-level column down.

    Raises:
        UnsupportedError: It refers to a field by its position.
    """
    _, (buffer,) = expression.__reduce__()
    with pa.ipc.open_file(buffer) as file:
        parts = _metadata_items(file.get_batch(0).schema)
    found: set[tuple[str, ...]] = set()
    for kind, text in parts:
        if kind == "field_ref":
            found.add((text,))
        elif kind == "nested_field_ref":
            names = [next(parts) for _ in range(int(text))]
            if any(part != "field_ref" for part, _ in names):
                raise UnsupportedError(f"the expression {expression} refers to a field by its position")
            found.add(tuple(name for _, name in names))
    return frozenset(found)


def _metadata_items(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """All metadata entries in order; `Schema.metadata` is a dict, which keeps only one entry per key.

    Read through the Arrow C data interface: `ArrowSchema.metadata` points to the number of entries and, per entry, the
    lengths and bytes of key and value.
    """
    capsule = schema.__arrow_c_schema__()
    address = _capsule_pointer(capsule, b"arrow_schema")
    position: int = ctypes.c_void_p.from_address(address + 2 * ctypes.sizeof(ctypes.c_void_p)).value or 0

    def take_int() -> int:
        nonlocal position
        value = ctypes.c_int32.from_address(position).value
        position += 4
        return value

    def take_text() -> str:
        nonlocal position
        length = take_int()
        text = ctypes.string_at(position, length).decode()
        position += length
        return text

    return iter([(take_text(), take_text()) for _ in range(take_int() if position else 0)])


_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _Reader:
    """Parses the prefix notation: every `node` call consumes one node with everything below it."""

    def __init__(self, batch: pa.RecordBatch, parts: Iterator[tuple[str, str]]) -> None:
        self._batch = batch
        self._parts = parts

    def node(self) -> Syntax:
        """The next node."""
        return self._node(*next(self._parts))

    def _node(self, kind: str, text: str) -> Syntax:
        match kind:
            case "literal":
                return Value(_literal(self._scalar(text)))
            case "field_ref":
                return Name((text,), (True,))
            case "nested_field_ref":
                names = tuple(next(self._parts)[1] for _ in range(int(text)))
                return Name(names, (True,) * len(names))
            case "call":
                return self._call(text)
            case _:
                raise ValueError(f"unknown part {kind}")

    def _call(self, function: str) -> Syntax:
        arguments, options = [], None
        for kind, text in self._parts:
            if kind == "end":
                break
            if kind == "options":
                options = self._scalar(text)
            else:
                arguments.append(self._node(kind, text))
        build = _FUNCTIONS.get(function)
        if build is None:
            raise UnsupportedError(f"PyArrow function {function} is not supported in a condition")
        return build(tuple(arguments), options)

    def _scalar(self, column: str) -> pa.Scalar:
        return self._batch.column(int(column))[0]


def _literal(scalar: pa.Scalar) -> Literal:
    if isinstance(scalar, pa.DictionaryScalar):
        scalar = scalar.value
    if not scalar.is_valid:
        return Literal(LiteralKind.NULL, None, "NULL")
    family = family_of(scalar.type)
    if family is None:
        raise UnsupportedError(f"a literal of type {scalar.type} is not supported in a condition")
    kind, value = _LITERALS[family](scalar)
    return Literal(kind, value, f"{_spelling(scalar)} ({scalar.type})")


def _spelling(scalar: pa.Scalar) -> str:
    """A literal for messages; dates and times that Python cannot represent are shown as numbers."""
    try:
        return str(scalar)
    except (OverflowError, ValueError):
        return str(scalar.value)


def _number(scalar: pa.Scalar) -> tuple[LiteralKind, Any]:
    return LiteralKind.NUMBER, Decimal(scalar.as_py())


def _in_nanoseconds(kind: LiteralKind) -> Callable[[pa.Scalar], tuple[LiteralKind, Any]]:
    return lambda scalar: (kind, scalar.value * _NANOSECONDS[scalar.type.unit])


_LITERALS: dict[Family, Callable[[pa.Scalar], tuple[LiteralKind, Any]]] = {
    Family.BOOLEAN: lambda scalar: (LiteralKind.BOOLEAN, scalar.as_py()),
    Family.INTEGER: _number,
    Family.FLOAT: _number,
    Family.DECIMAL: _number,
    Family.STRING: lambda scalar: (LiteralKind.STRING, scalar.as_py()),
    Family.BINARY: lambda scalar: (LiteralKind.BINARY, scalar.as_py()),
    Family.UUID: lambda scalar: (LiteralKind.UUID, scalar.value.as_py()),
    Family.DATE: lambda scalar: (LiteralKind.DATE, scalar.value),
    Family.TIME: _in_nanoseconds(LiteralKind.TIME),
    Family.TIMESTAMP: _in_nanoseconds(LiteralKind.TIMESTAMP),
    Family.INSTANT: _in_nanoseconds(LiteralKind.INSTANT),
}


def _plain(form: Form | Operator) -> Callable[[tuple[Syntax, ...], pa.Scalar | None], Syntax]:
    return lambda arguments, options: Call(form, arguments)


def _is_null(arguments: tuple[Syntax, ...], options: pa.Scalar | None) -> Syntax:
    is_null = Call(Form.IS_NULL, arguments)
    if options is not None and options["nan_is_null"].as_py():
        return Call(Form.OR, (is_null, Call(Form.IS_NAN, arguments)))
    return is_null


def _is_in(arguments: tuple[Syntax, ...], options: pa.Scalar | None) -> Syntax:
    """Membership as in PyArrow: false for a null, or true if the set contains one; never null."""
    behavior = None if options is None else options["null_matching_behavior"].as_py()
    if options is None or behavior not in (0, 1):  # MATCH, SKIP
        raise UnsupportedError(f"isin() with null matching behavior {behavior} is not supported in a condition")
    literals = [_literal(scalar) for scalar in options["value_set"].values]
    values = tuple(Value(literal) for literal in literals if literal.kind is not LiteralKind.NULL)
    is_null = Call(Form.IS_NULL, arguments)
    if behavior == 0 and len(values) < len(literals):
        return Call(Form.OR, (Call(Form.IN, (*arguments, *values)), is_null))
    return Call(Form.AND, (Call(Form.IN, (*arguments, *values)), Call(Form.NOT, (is_null,))))


def _starts_with(arguments: tuple[Syntax, ...], options: pa.Scalar | None) -> Syntax:
    if options is None or options["ignore_case"].as_py():
        raise UnsupportedError("starts_with() that ignores case is not supported in a condition")
    return Call(Form.STARTS_WITH, (*arguments, Value(_literal(options["pattern"]))))


_FUNCTIONS: dict[str, Callable[[tuple[Syntax, ...], pa.Scalar | None], Syntax]] = {
    "equal": _plain(Operator.EQ),
    "not_equal": _plain(Operator.NE),
    "less": _plain(Operator.LT),
    "less_equal": _plain(Operator.LE),
    "greater": _plain(Operator.GT),
    "greater_equal": _plain(Operator.GE),
    "and_kleene": _plain(Form.AND),
    "or_kleene": _plain(Form.OR),
    "invert": _plain(Form.NOT),
    "is_nan": _plain(Form.IS_NAN),
    "is_valid": lambda arguments, options: Call(Form.NOT, (Call(Form.IS_NULL, arguments),)),
    "is_null": _is_null,
    "is_in": _is_in,
    "starts_with": _starts_with,
}
