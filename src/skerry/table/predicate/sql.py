"""Parser of SQL conditions: a closed grammar; anything outside it is refused by name and position.

A general SQL parser accepts far more than can be evaluated on files, and its caller must notice every flag of every
node; a modifier overlooked there is a wrong row here. Every node of this grammar is bound.
"""

from __future__ import annotations

from skerry.errors import FormatError
from skerry.table.predicate.columns import Operator
from skerry.table.predicate.kernels import like_parts
from skerry.table.predicate.literals import Literal, LiteralKind
from skerry.table.predicate.operands import OperandParser
from skerry.table.predicate.syntax import Call, Form, Syntax, Value
from skerry.table.predicate.tokens import Token

__all__ = ["parse_condition"]

_COMPARISONS = {operator.value: operator for operator in Operator} | {"==": Operator.EQ, "!=": Operator.NE}


def parse_condition(text: str) -> Syntax:
    """Parse a SQL condition, as after WHERE.

    Values are columns (`a`, `a.b`, `"quoted"`), literals, arithmetic (`+ - * / // %`, `||`), CASE, casts
    (`CAST(x AS type)`, `x::type`), `variant_get(x, '$.a', 'long')` (null where the value is missing or does not fit the
    type) and the functions of `skerry.table.predicate.typing`. Conditions are comparisons (`=`, `<>`, `!=`, `<`, `<=`,
    `>`, `>=`, `<=>`, `IS [NOT] DISTINCT FROM`), AND, OR, NOT, IN, BETWEEN, LIKE and ILIKE, `~`, IS [NOT] NULL, IS [NOT]
    NAN, IS [NOT] TRUE or FALSE, `isnan(x)`, and `ST_Intersects_Extent(x, ST_MakeEnvelope(0, 0, 2, 1))` (whether the
    boxes around both shapes have a point in common; also `ST_GeomFromText('…')`, `'…'::GEOMETRY` and
    `ST_GeomFromWKB(X'…')`). Literals are numbers, strings, `X'…'`, TRUE, FALSE, NULL, DATE, TIME, TIMESTAMP,
    TIMESTAMPTZ, UUID, DECIMAL, DOUBLE and INTERVAL with a string. Identifiers without quotes match in any case. `now()`
    and `current_date` are the time of the call, in UTC.

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


class _Parser(OperandParser):
    """Recursive-descent parser; one method per rule of the grammar, tightest binding last."""

    def parse(self) -> Syntax:
        """Parse the whole text as one condition."""
        if self._token.kind == "end":
            raise FormatError("the condition is empty")
        condition = self._condition()
        if self._token.kind != "end":
            raise self._unexpected(f"the end of the condition or AND or OR{self._quoting()}")
        return condition

    def _condition(self) -> Syntax:
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
        if self._token.word in ("LIKE", "ILIKE"):
            return _negate(self._like(left, at), negated, at)
        if negated:
            raise self._unexpected("IN, BETWEEN or LIKE")
        if self._token.text in ("~", "!~"):
            negated = self._take().text == "!~"
            return _negate(Call("regexp_matches", (left, self._operand()), at), negated, at)
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
        both = Call(Form.AND, (Call(Operator.EQ, (left, right), at), Call(Form.NOT, (is_null,), at)), at)
        if isinstance(right, Value):
            return both
        other = Call(Form.IS_NULL, (right,), at)
        equal = Call(Form.AND, (both, Call(Form.NOT, (other,), at)), at)
        return Call(Form.OR, (equal, Call(Form.AND, (is_null, other), at)), at)

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
        kind, token = self._take().word, self._token
        pattern, escape = self._operand(), ""
        if self._accept("ESCAPE"):
            mark = self._operand()
            escape = mark.literal.value if isinstance(mark, Value) and mark.literal.kind is LiteralKind.STRING else ""
            if len(escape) != 1:
                raise FormatError(f"ESCAPE takes a string of one character{self._where(token.start)}")
        if not isinstance(pattern, Value):
            raise self._refuse(f"{kind} with a pattern that is not a constant", token)
        if pattern.literal.kind is not LiteralKind.STRING:
            return Call(Form.STARTS_WITH, (left, pattern), at)
        canonical = self._escaped(pattern.literal.value, escape, token)
        parts = like_parts(canonical)
        match parts if kind == "LIKE" else [None]:
            case [] | [str(_)] if parts != [""]:
                return Call(Operator.EQ, (left, _text(pattern, "".join(map(str, parts)))), at)
            case [""] | [str(_), ""] if parts[0] or len(parts) == 1:
                return Call(Form.STARTS_WITH, (left, _text(pattern, str(parts[0]))), at)
        return Call(kind.lower(), (left, _text(pattern, canonical)), at)

    def _escaped(self, pattern: str, escape: str, token: Token) -> str:
        """The pattern with the backslash as escape character, only where one is needed."""
        written, rest = [], iter(pattern)
        for character in rest:
            if character == escape:
                escaped = next(rest, None)
                if escaped is None:
                    raise FormatError(f"the pattern ends with its escape character{self._where(token.start)}")
                written.append("\\" + escaped if escaped in "%_\\" else escaped)
            elif character == "%" and written[-1:] == ["%"]:
                continue  # any number of characters twice
            else:
                written.append("\\\\" if character == "\\" else character)
        return "".join(written)


def _text(literal: Value, text: str) -> Value:
    return Value(Literal(LiteralKind.STRING, text, literal.literal.text), literal.at)


def _negate(condition: Syntax, negated: bool, at: int) -> Syntax:
    return Call(Form.NOT, (condition,), at) if negated else condition
