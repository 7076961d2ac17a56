"""Operands of SQL conditions: columns, literals, functions, casts and arithmetic."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from skerry.errors import FormatError, SchemaError
from skerry.table.predicate.casts import parse_sql_type
from skerry.table.predicate.columns import Operator
from skerry.table.predicate.extents import EXTENTS
from skerry.table.predicate.intervals import is_interval_unit, parse_interval
from skerry.table.predicate.literals import Literal, LiteralKind, parse_number
from skerry.table.predicate.syntax import Call, Extent, Form, Inside, Name, Syntax, Value
from skerry.table.predicate.tokens import RESERVED, Cursor, Token, refused_operand, unquote
from skerry.table.predicate.typing import FUNCTIONS
from skerry.table.rows.value_texts import DAY_NS, parse_date, parse_time, parse_timestamp, parse_uuid
from skerry.variant import is_variant
from skerry.variant.getting import parse_type
from skerry.variant.paths import parse_path

__all__ = ["OperandParser"]

_MAX_DEPTH: Final = 100
_LEVELS: Final = {"||": 0, "+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "%": 2}
_SIGN_LEVEL: Final = 3
_INSTANT: Final = pa.timestamp("us", "UTC")
_TODAY: Final = frozenset({"CURRENT_DATE", "CURRENT_TIMESTAMP"})
_ALIASES: Final = {
    "CEILING": "ceil",
    "CHAR_LENGTH": "length",
    "CHARACTER_LENGTH": "length",
    "DATEPART": "date_part",
    "DATETRUNC": "date_trunc",
    "DAYOFMONTH": "day",
    "IFNULL": "coalesce",
    "LCASE": "lower",
    "LEN": "length",
    "MOD": "%",
    "PREFIX": "starts_with",
    "STARTSWITH": "starts_with",
    "SUBSTR": "substring",
    "SUFFIX": "ends_with",
    "UCASE": "upper",
    "WEEKDAY": "dayofweek",
    "WEEKOFYEAR": "week",
}


class OperandParser(Cursor):
    """The rules of operands; conditions are a rule of `skerry.table.predicate.sql`."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    @abstractmethod
    def _condition(self) -> Syntax:
        """A condition, or an operand."""

    def _operand(self, level: int = 0) -> Syntax:
        """Operators of values, tightest last: `||`, then sums, products, signs and casts."""
        left = self._signed()
        while (found := _LEVELS.get(self._token.text)) is not None and found >= level:
            operator = self._take()
            left = Call(operator.text, (left, self._operand(found + 1)), operator.start)
        self._refuse_infix()
        return left

    def _signed(self) -> Syntax:
        sign = self._token
        if sign.text in ("+", "-") and self._tokens[self._next + 1].kind != "number":
            self._take()
            operand = self._operand(_SIGN_LEVEL)
            return operand if sign.text == "+" else Call("negative", (operand,), sign.start)
        operand = self._parenthesised() if sign.text == "(" else self._name_or_literal()
        while self._accept("::"):
            operand = self._cast(operand, sign)
        return operand

    def _parenthesised(self) -> Syntax:
        token = self._take()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._refuse(f"nesting deeper than {_MAX_DEPTH} parentheses", token)
        inner = self._condition()
        self._expect(")")
        self._depth -= 1
        return inner

    def _name_or_literal(self) -> Syntax:
        first = self._next
        token = self._take()
        if token.kind == "name":
            found = self._named(token)
            if found is not None:
                return found
        match token.kind:
            case "number":
                return self._number(token, "")
            case "string":
                return self._value(LiteralKind.STRING, unquote(token.text), token)
            case "hex":
                return self._hex(token)
            case "quoted":
                return self._path(token)
            case "symbol" if token.text in "+-" and self._token.kind == "number":
                return self._number(self._take(), token.text)
            case "parameter":
                raise FormatError(f"parameter {token.text} has no value{self._where(token.start)}")
        refused = refused_operand(token)
        if refused is not None:
            raise self._refuse(refused, token)
        self._next = first
        raise self._unexpected("a column or a literal")

    def _named(self, token: Token) -> Syntax | None:
        """What begins with a word."""
        if token.word == "NULL":
            return self._value(LiteralKind.NULL, None, token)
        if token.word in ("TRUE", "FALSE"):
            return self._value(LiteralKind.BOOLEAN, token.word == "TRUE", token)
        if token.word in _TODAY and self._token.text != ".":
            return self._now(token)
        if token.word == "CASE" and self._token.text != ".":
            return self._case(token)
        if token.word in _TYPES and self._token.kind == "string":
            return self._typed(token, self._take())
        if token.word not in RESERVED and self._token.text == "(":
            return self._function(token)
        if token.word == "INTERVAL" and self._token.kind in ("string", "number"):
            return self._interval(token)
        if token.word not in RESERVED and refused_operand(token) is None:
            return self._path(token)
        return None

    def _value(self, kind: LiteralKind, value: object, token: Token) -> Value:
        return Value(Literal(kind, value, token.text), token.start)

    def _number(self, token: Token, sign: str) -> Value:
        try:
            return Value(Literal(LiteralKind.NUMBER, parse_number(sign + token.text), sign + token.text), token.start)
        except ValueError as error:
            raise SchemaError(f"{token.text[:40]}: {error}{self._where(token.start)}") from None

    def _hex(self, token: Token) -> Value:
        digits = token.text[2:-1]
        if len(digits) % 2 or re.search(r"[^0-9a-fA-F]", digits):
            raise FormatError(f"X'…' takes pairs of hexadecimal digits{self._where(token.start)}")
        return self._value(LiteralKind.BINARY, bytes.fromhex(digits), token)

    def _path(self, token: Token) -> Name:
        parts = [token]
        while self._accept("."):
            if self._token.kind not in ("name", "quoted"):
                raise self._unexpected("the name of a field")
            parts.append(self._take())
        names = tuple(unquote(part.text) if part.kind == "quoted" else part.text for part in parts)
        return Name(names, tuple(part.kind == "quoted" for part in parts), token.start)

    def _function(self, token: Token) -> Syntax:
        name = _ALIASES.get(token.word, token.word.lower())
        special = self._special.get(token.word)
        if special is not None:
            return special(token)
        if token.word in EXTENTS:
            return self._extent(token)
        form, counts = _FORMS.get(token.word), FUNCTIONS.get(name)
        if form is None and counts is None:
            raise self._refuse(refused_operand(token) or f"function {token.text}()", token)
        arguments = self._arguments()
        if counts is None:
            counts = (1, 1) if form is Form.IS_NAN else (2, 2)
        if not counts[0] <= len(arguments) <= counts[1]:
            raise FormatError(f"wrong number of arguments for {token.text}(){self._where(token.start)}")
        return Call(form or name, tuple(arguments), token.start)

    def _arguments(self) -> list[Syntax]:
        self._expect("(")
        arguments: list[Syntax] = []
        while not self._accept(")"):
            if arguments:
                self._expect(",")
            arguments.append(self._condition())
        return arguments

    @property
    def _special(self) -> dict[str, Callable[[Token], Syntax]]:
        """Functions with a syntax of their own."""
        return {
            "CAST": self._cast_call,
            "EXTRACT": self._extract,
            "IF": lambda token: self._choice(token, self._arguments()),
            "NOW": self._now,
            "TODAY": self._now,
            "DATE": lambda token: self._cast_to(pa.date32(), self._arguments(), token),
            "VARIANT_GET": self._variant_get,
            "TRY_VARIANT_GET": self._variant_get,
        }

    def _now(self, token: Token) -> Syntax:
        """The time at which the condition is parsed, in UTC: the same for all rows."""
        self._accept("(", ")")
        nanoseconds = time.time_ns() // 1000 * 1000
        if token.word in ("TODAY", "CURRENT_DATE"):
            return self._value(LiteralKind.DATE, nanoseconds // DAY_NS, token)
        return Call("cast", (self._value(LiteralKind.INSTANT, nanoseconds, token),), token.start, _INSTANT)

    def _choice(self, token: Token, arguments: list[Syntax]) -> Syntax:
        if len(arguments) != 3:
            raise FormatError(f"wrong number of arguments for {token.text}(){self._where(token.start)}")
        return Call("case", tuple(arguments), token.start)

    def _case(self, token: Token) -> Syntax:
        subject = None if self._token.word == "WHEN" else self._condition()
        arguments: list[Syntax] = []
        while self._accept("WHEN"):
            at = self._token.start
            test = self._condition()
            arguments.append(test if subject is None else Call(Operator.EQ, (subject, test), at))
            if not self._accept("THEN"):
                raise self._unexpected("THEN")
            arguments.append(self._condition())
        other = self._condition() if self._accept("ELSE") else self._value(LiteralKind.NULL, None, token)
        if not arguments or not self._accept("END"):
            raise self._unexpected("WHEN or END")
        return Call("case", (*arguments, other), token.start)

    def _extract(self, token: Token) -> Syntax:
        self._expect("(")
        part = self._take()
        if not self._accept("FROM"):
            raise self._unexpected("FROM")
        operand = self._condition()
        self._expect(")")
        unit = unquote(part.text) if part.kind == "string" else part.text
        return Call("date_part", (self._value(LiteralKind.STRING, unit, part), operand), token.start)

    def _interval(self, token: Token) -> Value:
        amount = self._take()
        text = unquote(amount.text) if amount.kind == "string" else amount.text
        if self._token.kind == "name" and is_interval_unit(self._token.text):
            text += f" {self._take().text}"
        try:
            return Value(Literal(LiteralKind.INTERVAL, parse_interval(text), f"INTERVAL '{text}'"), token.start)
        except ValueError as error:
            raise SchemaError(f"{text!r} is not a valid INTERVAL: {error}{self._where(token.start)}") from None

    def _extent(self, token: Token) -> Extent:
        arguments = self._arguments()
        values = [argument.literal.value for argument in arguments if isinstance(argument, Value)]
        if len(values) < len(arguments):
            raise self._refuse(f"{token.text}() of a column", token)
        return self._extent_of(token.word, values, token)

    def _extent_of(self, function: str, values: list[object], token: Token) -> Extent:
        try:
            return Extent(EXTENTS[function](*values), token.start, is_envelope=function == "ST_MAKEENVELOPE")
        except (FormatError, SchemaError) as error:
            raise type(error)(f"{error.message}{self._where(token.start)}") from None
        except TypeError:
            raise FormatError(f"wrong arguments for {token.text}(){self._where(token.start)}") from None

    def _variant_get(self, token: Token) -> Syntax:
        self._expect("(")
        column = self._operand()
        texts: list[str] = []
        while self._accept(",") and len(texts) < 2:
            operand = self._operand()
            if not isinstance(operand, Value) or operand.literal.kind is not LiteralKind.STRING:
                break
            texts.append(operand.literal.value)
        self._expect(")")
        if len(texts) != 2 or not isinstance(column, Name):
            raise FormatError(f"{token.text}() takes a column, a path and a type{self._where(token.start)}")
        try:
            type_ = parse_type(texts[1])
            if is_variant(type_):
                raise self._refuse("comparing variants", token)
            return Inside(column, parse_path(texts[0]), type_, token.start)
        except SchemaError as error:
            raise SchemaError(f"{error.message}{self._where(token.start)}") from None

    # ---- typed literals and casts ----

    def _cast_call(self, token: Token) -> Syntax:
        self._expect("(")
        operand = self._condition()
        if not self._accept("AS"):
            raise self._unexpected("AS")
        value = self._cast(operand, token)
        self._expect(")")
        return value

    def _cast(self, operand: Syntax, token: Token) -> Syntax:
        name = self._take()
        if isinstance(operand, Value) and operand.literal.kind is LiteralKind.STRING:
            if name.word == "GEOMETRY":
                return self._extent_of("ST_GEOMFROMTEXT", [operand.literal.value], token)
            if name.word in _TYPES and self._token.text != "(" and not self._zoned(name):
                return self._convert(name, operand.literal.value, token)
        sizes: list[int] = []
        if self._accept("("):
            while not self._accept(")"):
                if sizes:
                    self._expect(",")
                size = self._take()
                if not size.text.isdecimal() or len(size.text) > 3:
                    raise self._refuse(f"a cast to {name.text}({size.text}", name)
                sizes.append(int(size.text))
        found = parse_sql_type("TIMESTAMPTZ" if self._zoned(name) else name.word, tuple(sizes))
        if found is None:
            raise self._refuse(f"a cast to {name.text}", name)
        return self._cast_to(found, [operand], token)

    def _zoned(self, name: Token) -> bool:
        return name.word == "TIMESTAMP" and self._accept("WITH", "TIME", "ZONE")

    def _cast_to(self, type_: pa.DataType, operands: list[Syntax], token: Token) -> Syntax:
        if len(operands) != 1:
            raise FormatError(f"wrong number of arguments for {token.text}(){self._where(token.start)}")
        return Call("cast", tuple(operands), token.start, type_)

    def _typed(self, name: Token, token: Token) -> Value:
        return self._convert(name, unquote(token.text), token)

    def _convert(self, name: Token, text: str, token: Token) -> Value:
        try:
            kind, value = _TYPES[name.word](text)
        except ValueError as error:
            raise SchemaError(f"{text!r} is not a valid {name.word}: {error}{self._where(token.start)}") from None
        return Value(Literal(kind, value, f"{name.text} '{text}'"), token.start)


def _timestamp(text: str) -> tuple[LiteralKind, object]:
    nanoseconds, zoned = parse_timestamp(text)
    return LiteralKind.INSTANT if zoned else LiteralKind.TIMESTAMP, nanoseconds


_FORMS = {
    "ISNAN": Form.IS_NAN,
    "IS_NAN": Form.IS_NAN,
    "STARTS_WITH": Form.STARTS_WITH,
    "STARTSWITH": Form.STARTS_WITH,
    "ST_INTERSECTS_EXTENT": Form.INTERSECTS_EXTENT,
}
_TYPES: dict[str, Callable[[str], tuple[LiteralKind, object]]] = {
    "DATE": lambda text: (LiteralKind.DATE, parse_date(text)),
    "TIME": lambda text: (LiteralKind.TIME, parse_time(text)),
    "TIMESTAMP": _timestamp,
    "TIMESTAMPTZ": lambda text: (LiteralKind.INSTANT, parse_timestamp(text)[0]),
    "UUID": lambda text: (LiteralKind.UUID, parse_uuid(text)),
    "DECIMAL": lambda text: (LiteralKind.NUMBER, parse_number(text)),
    "DOUBLE": lambda text: (LiteralKind.NUMBER, parse_number(text)),
}
