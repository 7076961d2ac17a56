"""Pairs of rows, one of the source and one of the table, from which a merge computes conditions and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError, SkerryError, UnsupportedError
from skerry.table.predicate import Predicate, row_mask
from skerry.table.predicate.arrow import arrow_array, field_references, values_of
from skerry.table.predicate.binding import bind, bind_value, resolve_column
from skerry.table.predicate.casts import can_cast, cast, sql_type
from skerry.table.predicate.expressions import Expression, compute, type_of
from skerry.table.predicate.literals import LiteralKind, canonical_type, fit
from skerry.table.predicate.sql import parse_condition
from skerry.table.predicate.syntax import Call, Name, Syntax, Value
from skerry.table.rows.incoming import conform
from skerry.table.rows.schema import FIELD_ID_KEY, nearest
from skerry.variant import is_variant

__all__ = ["SOURCE", "TARGET", "Condition", "PairSchema", "Pairs", "Term"]

SOURCE, TARGET = "source", "target"
Side: TypeAlias = str
Columns: TypeAlias = frozenset[tuple[Side, str]]
"""The columns that an expression uses, as (side, top-level name)."""

_Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Pairs:
    """Rows of the source beside rows of the table.

    Args:
        count: Number of pairs.
        columns: The available columns, by (side, top-level name).
    """

    count: int
    columns: Mapping[tuple[Side, str], pa.Array]

    @property
    def batch(self) -> pa.RecordBatch:
        """The pairs with a struct per side; an extra column keeps the number of rows if both are empty."""
        arrays, names = [pa.nulls(self.count)], [""]
        for side in (SOURCE, TARGET):
            members = {name: array for (of, name), array in self.columns.items() if of == side}
            if members:
                arrays.append(pa.StructArray.from_arrays(list(members.values()), names=list(members)))
                names.append(side)
        return pa.record_batch(arrays, names=names)

    def take(self, rows: npt.NDArray[np.int64]) -> Pairs:
        """Select some of the pairs."""
        indices = pa.array(rows)
        return Pairs(len(rows), {key: array.take(indices) for key, array in self.columns.items()})


class PairSchema:
    """The columns of both sides, to which the names in conditions and values are bound.

    Args:
        source: The source's columns.
        target: The table's columns.
        default: The side of a name without one; None if the side is required.
    """

    def __init__(self, source: pa.Schema, target: pa.Schema, default: Side | None = None) -> None:
        self.sides = {SOURCE: source, TARGET: target}
        self._default = default
        numbers = iter(range(1 << 31))
        self.bound = pa.schema(
            [_numbered(pa.field(side, pa.struct(list(schema))), numbers) for side, schema in self.sides.items()]
        )

    def empty(self) -> Pairs:
        """Zero pairs of these types."""
        return Pairs(
            0, {(side, field.name): pa.nulls(0, field.type) for side in self.sides for field in self.sides[side]}
        )

    def qualify(self, syntax: Syntax) -> Syntax:
        """Add a side to every name of a condition.

        Raises:
            SchemaError: A name has no side, and may belong to either.
        """
        match syntax:
            case Name(parts, exact):
                first = parts[0] if exact[0] else parts[0].lower()
                if first in self.sides and len(parts) > 1:
                    return replace(syntax, parts=(first, *parts[1:]), exact=(True, *exact[1:]))
                if self._default is None:
                    raise SchemaError(f"column {str(syntax)!r} is ambiguous: use source.{syntax} or target.{syntax}")
                return replace(syntax, parts=(self._default, *parts), exact=(True, *exact))
            case Call():
                return replace(syntax, arguments=tuple(self.qualify(argument) for argument in syntax.arguments))
            case _:
                return syntax

    def path(self, name: Name, text: str) -> tuple[str, ...]:
        """Side and names of a column.

        Raises:
            SchemaError: It does not exist; the message proposes the nearest name.
        """
        return resolve_column(self.bound, name, text).path

    def references(self, expression: pc.Expression) -> Columns:
        """The columns that a PyArrow expression names.

        Raises:
            SchemaError: A reference has no side, or the column does not exist.
        """
        found = set()
        for path in field_references(expression):
            if len(path) < 2 or path[0] not in self.sides:
                raise SchemaError(
                    f"{expression}: use pc.field('source', {path[0]!r}) or pc.field('target', {path[0]!r})"
                )
            known = self.sides[path[0]].names
            if path[1] not in known:
                raise SchemaError(f"no column {path[1]!r} in the {path[0]}{nearest(path[1], known)}")
            found.add((path[0], path[1]))
        return frozenset(found)


def _numbered(field: pa.Field, numbers: Iterable[int]) -> pa.Field:
    """The field with arbitrary ids, which binding requires."""
    if pa.types.is_struct(field.type) and not is_variant(field.type):
        field = field.with_type(pa.struct([_numbered(child, numbers) for child in field.type]))
    return field.with_metadata({FIELD_ID_KEY: str(next(iter(numbers))).encode()})


# Conditions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Condition:
    """A condition on pairs of rows; created by `Condition.of`.

    Args:
        columns: The columns that it uses.
        syntax: The condition, if it is SQL.
        expression: The condition, if it is a PyArrow expression.
        schema: The schema that names are bound to.
        text: The SQL, for messages.
    """

    columns: Columns
    schema: pa.Schema
    syntax: Syntax | None = None
    expression: pc.Expression | None = None
    text: str = ""

    @classmethod
    def of(cls, where: str | pc.Expression | None, schema: PairSchema) -> Condition | None:
        """Parse and bind a condition, and evaluate it on no rows, so that errors show immediately.

        Raises:
            FormatError: The text is not a condition.
            SchemaError: A column does not exist, or values cannot be compared.
            UnsupportedError: The condition uses a feature that is not supported.
        """
        if where is None:
            return None
        if isinstance(where, pc.Expression):
            condition = cls(schema.references(where), schema.bound, expression=where)
        elif isinstance(where, str):
            syntax = schema.qualify(parse_condition(where))
            columns = {schema.path(name, where)[:2] for name in _names(syntax)}
            condition = cls(frozenset((side, name) for side, name in columns), schema.bound, syntax, text=where)
        else:
            raise SchemaError(f"a condition must be SQL text or a PyArrow expression, found {type(where).__name__}")
        condition.mask(schema.empty())
        return condition

    @cached_property
    def _predicate(self) -> Predicate:
        assert self.syntax is not None
        return bind(self.syntax, self.schema, text=self.text)

    def mask(self, pairs: Pairs) -> _Mask:
        """bool[pairs]: where it is true."""
        batch = pairs.batch
        if self.syntax is None:
            verdict = _computed(self.expression, batch)
            if not pa.types.is_boolean(verdict.type):
                raise SchemaError(f"{self.expression} is of type {verdict.type}, expected a condition")
        else:
            verdict = row_mask(self._predicate, batch)
        return np.asarray(pc.fill_null(verdict, False).to_numpy(zero_copy_only=False), bool)

    def on_target(self, schema: pa.Schema) -> Predicate | None:
        """The condition on rows of the table alone, for planning; None if it cannot be expressed."""
        if self.syntax is None or any(side == SOURCE for side, _ in self.columns):
            return None
        try:
            return bind(_without_side(self.syntax), schema, text=self.text)
        except UnsupportedError:
            return None


def _names(syntax: Syntax) -> Iterable[Name]:
    match syntax:
        case Name():
            yield syntax
        case Call():
            for argument in syntax.arguments:
                yield from _names(argument)


def _without_side(syntax: Syntax) -> Syntax:
    match syntax:
        case Name(parts, exact):
            return replace(syntax, parts=parts[1:], exact=exact[1:])
        case Call():
            return replace(syntax, arguments=tuple(_without_side(argument) for argument in syntax.arguments))
        case _:
            return syntax


def _computed(expression: pc.Expression, batch: pa.RecordBatch) -> pa.Array:
    """A PyArrow expression over the rows of a batch."""
    from pyarrow import acero  # imports pandas if installed: a third of a second

    plan = acero.Declaration.from_sequence(
        [
            acero.Declaration("table_source", acero.TableSourceNodeOptions(pa.Table.from_batches([batch]))),
            acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
        ]
    )
    try:
        column = plan.to_table(use_threads=False).column(0)
    except (pa.ArrowException, NotImplementedError) as error:
        raise SchemaError(f"{expression} cannot be computed: {error}") from error
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


# Values --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Term:
    """A new value of a column; created by `Term.of` or `Term.column`.

    Args:
        columns: The columns that it uses.
        path: Side and names, if it is a column.
        expression: A PyArrow expression.
        sql: A value computed in SQL.
        type: The column's type, to which such a value is converted.
        literal: A single value, otherwise.
    """

    columns: Columns
    path: tuple[str, ...] = ()
    expression: pc.Expression | None = None
    sql: Expression | None = None
    type: pa.DataType | None = None
    literal: pa.Array | None = None

    @classmethod
    def column(cls, side: Side, name: str) -> Term:
        """A column, unchanged."""
        return cls(frozenset({(side, name)}), (side, name))

    @classmethod
    def of(cls, value: Any, field: pa.Field, schema: PairSchema) -> Term:
        """Parse a value for a column of the table.

        Raises:
            SchemaError: It does not fit the column, or names a column that does not exist.
            UnsupportedError: It is SQL that is not supported.
        """
        if isinstance(value, pc.Expression):
            return cls(schema.references(value), expression=value)
        if not isinstance(value, str):
            return cls(frozenset(), literal=_literal(value, field))
        try:
            syntax = schema.qualify(parse_condition(value))
        except UnsupportedError:
            raise
        except SkerryError as error:
            raise SchemaError(
                f"the value of column {field.name!r} is not an expression in SQL (put text in single quotes): {error}"
            ) from error
        match syntax:
            case Name():
                path = schema.path(syntax, value)
                return cls(frozenset({(path[0], path[1])}), path)
            case Value(literal):
                if literal.kind is LiteralKind.NULL:
                    return cls(frozenset(), literal=_literal(None, field))
                place = fit(literal, field.type, field.name)
                if not place.exact:
                    raise SchemaError(f"{literal.text} does not fit column {field.name!r} of type {field.type}")
                return cls(frozenset(), literal=arrow_array((place.floor,), field.type).cast(field.type))
            case _:
                return cls._computed_in_sql(syntax, field, schema, value)

    @classmethod
    def _computed_in_sql(cls, syntax: Syntax, field: pa.Field, schema: PairSchema, text: str) -> Term:
        columns = {schema.path(name, text)[:2] for name in _names(syntax)}
        found = bind_value(syntax, schema.bound, field.type, text=text)
        if not can_cast(type_of(found), field.type):
            raise SchemaError(
                f"{text!r} is of type {sql_type(type_of(found))}, which column {field.name!r} of type {field.type} "
                "cannot have"
            )
        return cls(frozenset((side, name) for side, name in columns), sql=found, type=field.type)

    def array(self, pairs: Pairs, batch: Callable[[], pa.RecordBatch]) -> pa.Array:
        """The values for pairs of rows, not yet converted to the column's type."""
        if self.literal is not None:
            return self.literal.take(pa.array(np.zeros(pairs.count, np.int64)))
        if self.expression is not None:
            return _computed(self.expression, batch())
        if self.sql is not None:
            return self._in_sql(batch())
        array = pairs.columns[(self.path[0], self.path[1])]
        return pc.struct_field(array, list(self.path[2:])) if len(self.path) > 2 else array

    def _in_sql(self, batch: pa.RecordBatch) -> pa.Array:
        assert self.sql is not None
        assert self.type is not None
        found = compute(self.sql, lambda column: values_of(column, batch))
        try:
            found = cast(found, canonical_type(self.type))
        except pa.ArrowException as error:
            raise SchemaError(f"{self.sql} does not fit type {self.type}: {error}") from error
        return pa.repeat(found, batch.num_rows) if isinstance(found, pa.Scalar) else found


def _literal(value: Any, field: pa.Field) -> pa.Array:
    """A Python value as an array of one, of the column's type."""
    try:
        array = pa.nulls(1, field.type) if value is None else pa.array([value])
    except (pa.ArrowException, OverflowError) as error:
        raise SchemaError(f"the value {value!r} does not fit column {field.name!r} of type {field.type}") from error
    schema = pa.schema([field])
    column = conform(pa.table([array], names=[field.name]), schema).read_all().column(0)
    return pa.concat_arrays(column.chunks)
