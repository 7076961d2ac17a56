"""Tokens of SQL conditions, and a cursor over them that knows where it is when something is wrong."""

from __future__ import annotations

import re
from dataclasses import dataclass

from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.table.predicate.syntax import describe_position

__all__ = ["RESERVED", "Cursor", "Token", "refused_operand", "tokenize", "unquote"]

_TOKENS = re.compile(
    r"""
      (?P<blank>  (?: \s+ | --[^\n]* | /\*.*?\*/ )+ )
    | (?P<hex>    [xX]'(?:[^']*)' )
    | (?P<string> '(?:[^']|'')*' )
    | (?P<quoted> "(?:[^"]|"")+" | `(?:[^`]|``)+` )
    | (?P<number> (?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)? )
    | (?P<name>   [^\W\d][\w$]* )
    | (?P<parameter> \? | \$ (?: \d+ | [^\W\d]\w* ) )
    | (?P<symbol> <=> | <> | != | == | <= | >= | << | >> | :: | // | \|\| | \^@ | !~ | [-=<>().,+*/%;\[\]{}~:|&^@!\#] )
    """,
    re.VERBOSE | re.DOTALL,
)
RESERVED = frozenset({"AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "FALSE", "ESCAPE"})
# Legal SQL that is not supported in conditions, refused by name rather than as a syntax error: at the start of an
# operand, and after one.
_REFUSED_PREFIX = {
    "EXISTS": "a subquery (EXISTS)",
    "SELECT": "a subquery",
    ":": "a parameter",
    "@": "a parameter",
    "[": "a list",
    "{": "a struct",
    "~": "operator ~",
}
_REFUSED_INFIX = {
    **{symbol: f"operator {symbol}" for symbol in ("&", "|", "^", "#", "<<", ">>")},
    "[": "access to elements",
    "AT": "AT TIME ZONE",
    "COLLATE": "COLLATE",
    "GLOB": "GLOB",
    "REGEXP": "REGEXP (regexp_matches() is)",
    "RLIKE": "RLIKE (regexp_matches() is)",
    "SIMILAR": "SIMILAR TO",
}


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind (a group of the expression above, or `end`), its text, and where it starts."""

    kind: str
    text: str
    start: int

    @property
    def word(self) -> str:
        """A name in upper case; empty for other kinds."""
        return self.text.upper() if self.kind == "name" else ""


def tokenize(text: str) -> list[Token]:
    """Split a condition into tokens, the last of which is its end.

    Raises:
        FormatError: There is something that is no token.
    """
    tokens, position = [], 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        if match is None:
            what = {"'": "a string that is not closed", '"': "a name that is not closed"}
            character = text[position]
            where = describe_position(text, position)
            raise FormatError(f"{what.get(character, f'unexpected {character!r}')}{where}")
        if match.lastgroup != "blank":
            tokens.append(Token(str(match.lastgroup), match.group(), position))
        position = match.end()
    tokens.append(Token("end", "", len(text)))
    return tokens


def unquote(text: str) -> str:
    """The text within quotes, which are written twice in it."""
    return text[1:-1].replace(text[0] * 2, text[0])


def refused_operand(token: Token) -> str | None:
    """What a token begins that is SQL, but not supported in conditions."""
    return _REFUSED_PREFIX.get(token.text.upper())


class Cursor:
    """A place between the tokens of a condition."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._next = 0

    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _take(self) -> Token:
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

    def _quoting(self) -> str:
        """A hint where the last two tokens look like one name."""
        before, token = self._tokens[max(self._next - 1, 0)], self._token
        is_name = before is not token and token.word and before.word and before.word not in RESERVED
        return f'; a name with spaces is quoted: "{before.text} {token.text}"' if is_name else ""

    def _refuse(self, feature: str, token: Token) -> UnsupportedError:
        return UnsupportedError(f"{feature} is not supported in a condition{self._where(token.start)}")

    def _refuse_infix(self) -> None:
        """Refuse an operator that is SQL, but not supported."""
        refused = _REFUSED_INFIX.get(self._token.text.upper())
        if refused:
            raise self._refuse(refused, self._token)
