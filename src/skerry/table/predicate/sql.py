"""Parser of SQL conditions: a small closed grammar; anything outside it is refused by name and position.

A general SQL parser accepts far more than can be evaluated on files, and its caller must notice every flag of every
node; a modifier overlooked there is a wrong row here. Every node of this grammar is bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from skerry.errors import FormatError, SchemaError, SkerryError, UnsupportedError
from skerry.table.predicate.binding import Call, Extent, Form, Inside, Name, Syntax, Value, describe_position
from skerry.table.predicate.extents import EXTENTS
from skerry.table.predicate.literals import (
    Literal,
    LiteralKind,
    parse_number,
)
from skerry.table.predicate.nodes import Operator
from skerry.table.rows.value_texts import parse_date, parse_time, parse_timestamp, parse_uuid
from skerry.variant import is_variant
from skerry.variant.getting import parse_type
from skerry.variant.paths import parse_path

__all__ = ["parse_condition"]

_TOKENS = re.compile(
    r"""
      (?P<blank>  (?: \s+ | --[^\n]* | /\*.*?\*/ )+ )
    | (?P<hex>    [xX]'(?:[^']*)' )
    | (?P<string> '(?:[^']|'')*' )
    | (?P<quoted> "(?:[^"]|"")+" | `(?:[^`]|``)+` )
    | (?P<number> (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
    | (?P<name>   [^\W\d][\w$]* )
    | (?P<symbol> <=> | <> | != | == | <= | >= | << | >> | :: | \|\| | \^@ | !~ | [-=<>().,+*/%;\[\]{}~?:|&^@!\#] )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMPARISONS = {operator.value: operator for operator in Operator} | {"==": Operator.EQ, "!=": Operator.NE}
_RESERVED = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE", "ESCAPE"})
# Legal SQL that is not supported in conditions, refused by name rather than as a syntax error: at the start of an
# operand, and after one.
_REFUSED_PREFIX = {
    "CASE": "CASE",
    "EXISTS": "a subquery (EXISTS)",
    "SELECT": "a subquery",
    "?": "a parameter",
    ":": "a parameter",
    "@": "a parameter",
    "[": "a list",
    "{": "a struct",
    "~": "operator ~",
}
_REFUSED_INFIX = {
    **{symbol: f"operator {symbol}" for symbol in ("+", "-", "*", "/", "%", "||", "&", "|", "^", "#", "<<", ">>")},
    "~": "operator ~",
    "!~": "operator !~",
    "[": "access to elements",
    "AT": "AT TIME ZONE",
    "COLLATE": "COLLATE",
    "GLOB": "GLOB",
    "ILIKE": "ILIKE",
    "REGEXP": "REGEXP",
    "RLIKE": "RLIKE",
    "SIMILAR": "SIMILAR TO",
}
_MAX_DEPTH = 100


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        return self.text.upper() if self.kind == "name" else ""


def parse_condition(text: str) -> Syntax:
    """Parse a SQL condition, as after WHERE.

    Comparisons (`=`, `<>`, `!=`, `<`, `<=`, `>`, `>=`, `<=>`, `IS [NOT] DISTINCT FROM`) of a column with a literal,
    AND, OR, NOT, IN, BETWEEN, LIKE with % at the end only, IS [NOT] NULL, IS [NOT] NAN, IS [NOT] TRUE or FALSE,
    `isnan(x)`, `starts_with(x, 'a')`, `variant_get(x, '$.a', 'long')` (null where the value is missing or does not fit
    the type), `ST_Intersects_Extent(x, ST_MakeEnvelope(0, 0, 2, 1))` (whether the boxes around both shapes have a point
    in common; also `ST_GeomFromText('…')`, `'…'::GEOMETRY` and `ST_GeomFromWKB(X'…')`), fields of structs (`a.b`),
    "quoted identifiers", and literals: numbers, strings, `X'…'`, TRUE, FALSE, NULL, and DATE, TIME, TIMESTAMP,
    TIMESTAMPTZ, UUID, DECIMAL, DOUBLE with a string, also as casts. Identifiers without quotes match in any case.

    Args:
        text: The condition.

    Returns:
        Its syntax tree.

    Raises:
        FormatError: The text is not a condition; the message names the character.
        UnsupportedError: The text is SQL that is not supported; the message names it and the character.
        SchemaError: A literal is not valid for its type.
    """
    return _Parser(text).parse()


class _Parser:
    """Recursive-descent parser; one method per rule of the grammar, tightest binding last."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenize())
        self._next = 0
        self._depth = 0

    def parse(self) -> Syntax:
        """Parse the whole text as one condition."""
        if self._token.kind == "end":
            raise FormatError("the condition is empty")
        condition = self._or()
        if self._token.kind != "end":
            raise self._unexpected("the end of the condition or AND or OR")
        return condition

    # ---- tokens ----

    def _tokenize(self) -> list[_Token]:
        tokens, position = [], 0
        while position < len(self._text):
            match = _TOKENS.match(self._text, position)
            if match is None:
                what = {"'": "a string that is not closed", '"': "a name that is not closed"}
                character = self._text[position]
                raise FormatError(f"{what.get(character, f'unexpected {character!r}')}{self._where(position)}")
            if match.lastgroup != "blank":
                tokens.append(_Token(str(match.lastgroup), match.group(), position))
            position = match.end()
        tokens.append(_Token("end", "", len(self._text)))
        return tokens

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._token
        self._next += token.kind != "end"
        return token

    def _accept(self, *words: str) -> bool:
        """Skip the words (or symbols) if exactly they come next."""
        ahead = self._tokens[self._next : self._next + len(words)]
        if [token.word or token.text for token in ahead] != list(words):
            return False
        self._next += len(words)
        return True

    def _expect(self, symbol: str) -> None:
        if not self._accept(symbol):
            raise self._unexpected(repr(symbol))

    def _where(self, position: int) -> str:
        return describe_position(self._text, position)

    def _unexpected(self, expected: str) -> SkerryError:
        token = self._token
        if token.kind == "end":
            return FormatError(f"the condition ends, expected {expected}{self._where(token.start)}")
        refused = _REFUSED_INFIX.get(token.text.upper()) or _REFUSED_PREFIX.get(token.word)
        if refused:
            return self._refuse(refused, token)
        return FormatError(f"found {token.text}, expected {expected}{self._where(token.start)}")

    def _refuse(self, feature: str, token: _Token) -> UnsupportedError:
        return UnsupportedError(f"{feature} is not supported in a condition{self._where(token.start)}")

    # ---- conditions ----

    def _or(self) -> Syntax:
        start = self._token.start
        parts = [self._and()]
        while self._accept("OR"):
            parts.append(self._and())
        return parts[0] if len(parts) == 1 else Call(Form.OR, tuple(parts), start)

    def _and(self) -> Syntax:
        start = self._token.start
        parts = [self._not()]
        while self._accept("AND"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else Call(Form.AND, tuple(parts), start)

    def _not(self) -> Syntax:
        negations, start = 0, self._token.start
        while self._accept("NOT"):
            negations += 1
        condition = self._test()
        return Call(Form.NOT, (condition,), start) if negations % 2 else condition

    def _test(self) -> Syntax:
        token = self._token
        left = self._operand()
        at = token.start
        operator = _COMPARISONS.get(self._token.text)
        if operator is not None:
            self._take()
            return Call(operator, (left, self._operand()), at)
        if self._accept("<=>"):
            return self._not_distinct(left, self._operand(), at)
        if self._accept("^@"):
            return Call(Form.STARTS_WITH, (left, self._operand()), at)
        if self._accept("IS"):
            negated = self._accept("NOT")
            return _negate(self._is(left, at), negated, at)
        negated = self._accept("NOT")
        if self._accept("IN"):
            return _negate(self._in(left, at), negated, at)
        if self._accept("BETWEEN"):
            return _negate(self._between(left, at), negated, at)
        if self._accept("LIKE"):
            return _negate(self._like(left, at), negated, at)
        if negated:
            raise self._unexpected("IN, BETWEEN or LIKE")
        return left

    def _is(self, left: Syntax, at: int) -> Syntax:
        if self._accept("NULL"):
            return Call(Form.IS_NULL, (left,), at)
        if self._accept("NAN"):
            return Call(Form.IS_NAN, (left,), at)
        if self._accept("DISTINCT", "FROM"):
            return Call(Form.NOT, (self._not_distinct(left, self._operand(), at),), at)
        if self._token.word in ("TRUE", "FALSE"):
            return self._not_distinct(left, self._operand(), at)
        raise self._unexpected("NULL, NAN, TRUE, FALSE or DISTINCT FROM")

    @staticmethod
    def _not_distinct(left: Syntax, right: Syntax, at: int) -> Syntax:
        """Equality that is never unknown: null is not distinct from null."""
        if isinstance(left, Value):
            left, right = right, left
        is_null = Call(Form.IS_NULL, (left,), at)
        if isinstance(right, Value) and right.literal.kind is LiteralKind.NULL:
            return is_null
        return Call(Form.AND, (Call(Operator.EQ, (left, right), at), Call(Form.NOT, (is_null,), at)), at)

    def _in(self, left: Syntax, at: int) -> Syntax:
        self._expect("(")
        values = [self._operand()]
        while self._accept(","):
            values.append(self._operand())
        self._expect(")")
        return Call(Form.IN, (left, *values), at)

    def _between(self, left: Syntax, at: int) -> Syntax:
        low = self._operand()
        if not self._accept("AND"):
            raise self._unexpected("AND")
        high = self._operand()
        return Call(Form.AND, (Call(Operator.GE, (left, low), at), Call(Operator.LE, (left, high), at)), at)

    def _like(self, left: Syntax, at: int) -> Syntax:
        token = self._token
        pattern, escape = self._operand(), ""
        if self._accept("ESCAPE"):
            mark = self._operand()
            escape = mark.literal.value if isinstance(mark, Value) and mark.literal.kind is LiteralKind.STRING else ""
            if len(escape) != 1:
                raise FormatError(f"ESCAPE takes a string of one character{self._where(token.start)}")
        if not isinstance(pattern, Value) or pattern.literal.kind is not LiteralKind.STRING:
            return Call(Form.STARTS_WITH, (left, pattern), at)
        prefix, wildcards = self._split_pattern(pattern.literal.value, escape, token)
        literal = Value(Literal(LiteralKind.STRING, prefix, pattern.literal.text), pattern.at)
        if not wildcards:
            return Call(Operator.EQ, (left, literal), at)
        return Call(Form.STARTS_WITH, (left, literal), at)

    def _split_pattern(self, pattern: str, escape: str, token: _Token) -> tuple[str, bool]:
        """Split a LIKE pattern into its literal prefix and whether anything may follow."""
        prefix, rest = [], iter(pattern)
        for character in rest:
            if character == escape:
                escaped = next(rest, None)
                if escaped is None:
                    raise FormatError(f"the pattern ends with its escape character{self._where(token.start)}")
                prefix.append(escaped)
            elif character in "%_":
                if character == "_" or set(rest) - {"%"}:
                    raise self._refuse("a LIKE pattern with wildcards before its end", token)
                return "".join(prefix), True
            else:
                prefix.append(character)
        return "".join(prefix), False

    # ---- operands ----

    def _operand(self) -> Syntax:
        if self._token.text == "(":
            operand = self._parenthesised()
        else:
            operand = self._name_or_literal()
        while self._accept("::"):
            operand = self._cast(operand, self._token)
        refused = _REFUSED_INFIX.get(self._token.text.upper())
        if refused:
            raise self._refuse(refused, self._token)
        return operand

    def _parenthesised(self) -> Syntax:
        token = self._take()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._refuse(f"nesting deeper than {_MAX_DEPTH} parentheses", token)
        inner = self._or()
        self._expect(")")
        self._depth -= 1
        return inner

    def _name_or_literal(self) -> Syntax:
        first = self._next
        token = self._take()
        match token.kind:
            case "number":
                return self._number(token, "")
            case "string":
                return self._value(LiteralKind.STRING, _unquote(token.text), token)
            case "hex":
                return self._hex(token)
            case "quoted":
                return self._path(token)
            case "symbol" if token.text in "+-" and self._token.kind == "number":
                return self._number(self._take(), token.text)
            case "name" if token.word == "NULL":
                return self._value(LiteralKind.NULL, None, token)
            case "name" if token.word in ("TRUE", "FALSE"):
                return self._value(LiteralKind.BOOLEAN, token.word == "TRUE", token)
            case "name" if token.word in _TYPES and self._token.kind == "string":
                return self._typed(token, self._take())
            case "name" if token.word not in _RESERVED and self._token.text == "(":
                return self._function(token)
            case "name" if token.word == "INTERVAL" and self._token.kind in ("string", "number"):
                raise self._refuse("INTERVAL", token)
            case "name" if token.word not in _RESERVED | _REFUSED_PREFIX.keys():
                return self._path(token)
        if token.text.upper() in _REFUSED_PREFIX:
            raise self._refuse(_REFUSED_PREFIX[token.text.upper()], token)
        self._next = first
        raise self._unexpected("a column or a literal")

    def _value(self, kind: LiteralKind, value: object, token: _Token) -> Value:
        return Value(Literal(kind, value, token.text), token.start)

    def _number(self, token: _Token, sign: str) -> Value:
        try:
            return Value(Literal(LiteralKind.NUMBER, parse_number(sign + token.text), sign + token.text), token.start)
        except ValueError as error:
            raise SchemaError(f"{token.text[:40]}: {error}{self._where(token.start)}") from None

    def _hex(self, token: _Token) -> Value:
        digits = token.text[2:-1]
        if len(digits) % 2 or re.search(r"[^0-9a-fA-F]", digits):
            raise FormatError(f"X'…' takes pairs of hexadecimal digits{self._where(token.start)}")
        return self._value(LiteralKind.BINARY, bytes.fromhex(digits), token)

    def _path(self, token: _Token) -> Name:
        parts = [token]
        while self._accept("."):
            if self._token.kind not in ("name", "quoted"):
                raise self._unexpected("the name of a field")
            parts.append(self._take())
        names = tuple(_unquote(part.text) if part.kind == "quoted" else part.text for part in parts)
        return Name(names, tuple(part.kind == "quoted" for part in parts), token.start)

    def _function(self, token: _Token) -> Syntax:
        form = _FUNCTIONS.get(token.word)
        if token.word == "CAST":
            return self._cast_call(token)
        if token.word in ("VARIANT_GET", "TRY_VARIANT_GET"):
            return self._variant_get(token)
        if token.word in EXTENTS:
            return self._extent(token)
        if form is None:
            raise self._refuse(_REFUSED_PREFIX.get(token.word, f"function {token.text}()"), token)
        self._expect("(")
        arguments = [self._operand()]
        while self._accept(","):
            arguments.append(self._operand())
        self._expect(")")
        if len(arguments) != (1 if form is Form.IS_NAN else 2):
            raise FormatError(f"wrong number of arguments for {token.text}(){self._where(token.start)}")
        return Call(form, tuple(arguments), token.start)

    def _extent(self, token: _Token) -> Extent:
        self._expect("(")
        arguments = [self._operand()]
        while self._accept(","):
            arguments.append(self._operand())
        self._expect(")")
        values = [argument.literal.value for argument in arguments if isinstance(argument, Value)]
        if len(values) < len(arguments):
            raise self._refuse(f"{token.text}() of a column", token)
        return self._extent_of(token.word, values, token)

    def _extent_of(self, function: str, values: list[object], token: _Token) -> Extent:
        try:
            return Extent(EXTENTS[function](*values), token.start)
        except (FormatError, SchemaError) as error:
            raise type(error)(f"{error.message}{self._where(token.start)}") from None
        except TypeError:
            raise FormatError(f"wrong arguments for {token.text}(){self._where(token.start)}") from None

    def _variant_get(self, token: _Token) -> Syntax:
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

    def _cast_call(self, token: _Token) -> Syntax:
        self._expect("(")
        operand = self._operand()
        if not self._accept("AS"):
            raise self._unexpected("AS")
        value = self._cast(operand, token)
        self._expect(")")
        return value

    def _cast(self, operand: Syntax, token: _Token) -> Value | Extent:
        name = self._take()
        if not isinstance(operand, Value):
            raise self._refuse("a cast of a column", token)
        if name.word == "GEOMETRY" and operand.literal.kind is LiteralKind.STRING:
            return self._extent_of("ST_GEOMFROMTEXT", [operand.literal.value], token)
        if name.word not in _TYPES or operand.literal.kind is not LiteralKind.STRING:
            raise self._refuse(f"a cast of {operand.literal.kind.value} to {name.text}", token)
        return self._convert(name, operand.literal.value, token)

    def _typed(self, name: _Token, token: _Token) -> Value:
        return self._convert(name, _unquote(token.text), token)

    def _convert(self, name: _Token, text: str, token: _Token) -> Value:
        try:
            kind, value = _TYPES[name.word](text)
        except ValueError as error:
            raise SchemaError(f"{text!r} is not a valid {name.word}: {error}{self._where(token.start)}") from None
        return Value(Literal(kind, value, f"{name.text} '{text}'"), token.start)


def _negate(condition: Syntax, negated: bool, at: int) -> Syntax:
    return Call(Form.NOT, (condition,), at) if negated else condition


def _unquote(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0])


def _timestamp(text: str) -> tuple[LiteralKind, object]:
    nanoseconds, zoned = parse_timestamp(text)
    return LiteralKind.INSTANT if zoned else LiteralKind.TIMESTAMP, nanoseconds


_FUNCTIONS = {
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
