"""PostgreSQL's logical replication messages, as its plugin `pgoutput` writes them, into change records.

A record has a key and a value, both JSON, as Debezium sends them through Kafka:

    key    {"id":7}
    value  {"op":"u","before":null,"after":{"id":7,"amount":12.50},"source":{"lsn":23876544,"txId":744,…},"ts_ms":…}

`op` is `c` (insert), `u`, `d` or `r` (a row that was there before the first change). A row whose key changes is told as
deleted under its old key and inserted under the new one.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii as quoted

__all__ = ["Decoder", "Records", "Relation", "UnsupportedChangeError", "add_row", "describe"]

_SHORT = struct.Struct(">H").unpack_from
_INT = struct.Struct(">I").unpack_from
_BEGIN = struct.Struct(">xxxxxxxxxqI").unpack_from  # after the commit's LSN: its time, the transaction's number
_COMMIT = struct.Struct(">xxxxxxxxxxQ").unpack_from  # after flags and the commit's LSN: the LSN after it

_POSTGRES_EPOCH_US = 946_684_800_000_000  # 2000-01-01 since 1970-01-01
_NULL, _UNCHANGED, _TEXT = ord("n"), ord("u"), ord("t")
_OLD_KEY, _OLD_ROW, _NEW_ROW = ord("K"), ord("O"), ord("N")


class UnsupportedChangeError(Exception):
    """A change that no record can tell."""


@dataclass(slots=True)
class Records:
    """Change records column by column: what the key and the value of each is, and where in the log it stands.

    Args:
        keys: Their keys, JSON.
        values: Their values, JSON.
        lsns: Their log sequence numbers; of two records with one key, the later has the greater one.
        times_us: When their transactions were committed, in microseconds since 1970 (UTC).
    """

    keys: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    lsns: list[int] = field(default_factory=list)
    times_us: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.keys)

    def add(
        self, relation: Relation, lsn: int, time_us: int, op: str, key: str, before: str, after: str, tail: str
    ) -> None:
        """Add a record, of parts that are JSON already."""
        self.keys.append(key)
        self.values.append(f'{{"op":"{op}","before":{before},"after":{after}{relation.source}{lsn}{tail}')
        self.lsns.append(lsn)
        self.times_us.append(time_us)


# How the text of a value becomes JSON, by the OID of its type; all others become strings as they are.


def _number(text: str) -> str:
    """Digits are a number in JSON, too; NaN and the infinities are told as strings."""
    return text if text[-1].isdigit() else quoted(text)


def _boolean(text: str) -> str:
    return "true" if text == "t" else "false"


def _timestamp(text: str) -> str:
    return quoted(text.replace(" ", "T", 1))


def _instant(text: str) -> str:
    return quoted(text.replace(" ", "T", 1).replace("+00", "Z"))  # the session's time zone is UTC


def _bytes(text: str) -> str:
    return quoted(base64.b64encode(bytes.fromhex(text[2:])).decode())


_JSON: dict[int, Callable[[str], str]] = {
    16: _boolean,
    17: _bytes,
    20: str,  # bigint
    21: str,  # smallint
    23: str,  # integer
    700: _number,  # real
    701: _number,  # double precision
    1114: _timestamp,
    1184: _instant,
    1700: _number,  # numeric
}


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, as the log's messages after its description give its rows.

    Args:
        name: What it is called, with its schema.
        columns: Its columns.
        writers: What makes JSON of each column's text.
        key: Which of them are the primary key.
        row_form: JSON of a row, with a place for each value.
        key_form: JSON of a key, likewise.
        source: The first part of what a record says of its source.
    """

    name: str
    columns: tuple[str, ...]
    writers: tuple[Callable[[str], str], ...]
    key: tuple[int, ...]
    row_form: str
    key_form: str
    source: str


def describe(schema: str, table: str, columns: Sequence[tuple[str, int]], key: Sequence[str]) -> Relation:
    """Describe a table by its columns, each with the OID of its type, and the columns of its primary key.

    Raises:
        UnsupportedChangeError: It has no primary key.
    """
    if not key:
        raise UnsupportedChangeError(f"{schema}.{table} has no primary key: nothing tells which row a change is of")
    names = tuple(name for name, _ in columns)
    return Relation(
        f"{schema}.{table}",
        names,
        tuple(_JSON.get(oid, quoted) for _, oid in columns),
        tuple(names.index(column) for column in key),
        _form(names),
        _form(key),
        f',"source":{{"schema":{quoted(schema)},"table":{quoted(table)},"lsn":',
    )


def _form(columns: Sequence[str]) -> str:
    return "{" + ",".join(quoted(column).replace("%", "%%") + ":%s" for column in columns) + "}"


def add_row(records: Records, relation: Relation, row: Sequence[str | None], time_us: int) -> None:
    """Add a row that was there before all changes: its place in the log is 0.

    Args:
        records: Where to.
        relation: The row's table.
        row: The text of each value, as PostgreSQL writes it.
        time_us: When it was read.
    """
    values = ["null" if text is None else write(text) for text, write in zip(row, relation.writers, strict=True)]
    tail = f',"txId":null}},"ts_ms":{time_us // 1000}}}'
    records.add(relation, 0, time_us, "r", _key(relation, values), "null", relation.row_form % tuple(values), tail)


class Decoder:
    """Makes records of messages; one at a time, in the order of the log.

    Args:
        primary_key: Names of the primary key's columns of a table, by the table's OID.

    Attributes:
        records: What was decoded and not taken yet.
        end_lsn: Where the log goes on after the last transaction that was told.
    """

    def __init__(self, primary_key: Callable[[int], Sequence[str]]) -> None:
        self.records = Records()
        self.end_lsn = 0
        self._primary_key = primary_key
        self._relations: dict[int, Relation] = {}
        self._time_us = 0
        self._tail = ""
        self._decoders = {
            ord("B"): self._begin,
            ord("C"): self._commit,
            ord("R"): self._relation,
            ord("I"): self._insert,
            ord("U"): self._update,
            ord("D"): self._delete,
            ord("T"): self._truncate,
        }

    def decode(self, lsn: int, message: bytes) -> None:
        """Decode a message, whose change stands at `lsn`; of those kinds that change no row nothing comes.

        Raises:
            UnsupportedChangeError: No record can tell the change.
        """
        decode = self._decoders.get(message[0])
        if decode is not None:
            decode(lsn, message)

    def take(self) -> Records:
        """Return what was decoded since this was last asked."""
        taken, self.records = self.records, Records()
        return taken

    def _begin(self, lsn: int, message: bytes) -> None:
        time_us, transaction = _BEGIN(message)
        self._time_us = time_us + _POSTGRES_EPOCH_US
        self._tail = f',"txId":{transaction}}},"ts_ms":{self._time_us // 1000}}}'

    def _commit(self, lsn: int, message: bytes) -> None:
        (self.end_lsn,) = _COMMIT(message)

    def _relation(self, lsn: int, message: bytes) -> None:
        (oid,) = _INT(message, 1)
        schema, at = _name(message, 5)
        name, at = _name(message, at)
        (count,) = _SHORT(message, at + 1)  # after a byte that says how rows are identified
        at += 3
        columns = []
        for _ in range(count):
            column, at = _name(message, at + 1)  # after a byte of flags
            columns.append((column, _INT(message, at)[0]))
            at += 8  # the type and its modifier
        self._relations[oid] = describe(schema, name, columns, self._primary_key(oid))

    def _insert(self, lsn: int, message: bytes) -> None:
        relation = self._relations[_INT(message, 1)[0]]
        row, _ = _row(message, 6, relation)
        self._add(relation, lsn, "c", _key(relation, row), "null", relation.row_form % tuple(row))

    def _update(self, lsn: int, message: bytes) -> None:
        relation = self._relations[_INT(message, 1)[0]]
        kind, at, before = message[5], 6, None
        if kind != _NEW_ROW:
            before, at = _row(message, at, relation)
            at += 1
        row, _ = _row(message, at, relation, before if kind == _OLD_ROW else None)
        key, after = _key(relation, row), relation.row_form % tuple(row)
        old_key = key if before is None else _key(relation, before)
        if old_key != key:
            self._add(relation, lsn, "d", old_key, _before(relation, kind, before), "null")
            self._add(relation, lsn, "c", key, "null", after)
        else:
            self._add(relation, lsn, "u", key, _before(relation, kind, before), after)

    def _delete(self, lsn: int, message: bytes) -> None:
        relation = self._relations[_INT(message, 1)[0]]
        before, _ = _row(message, 6, relation)
        self._add(relation, lsn, "d", _key(relation, before), _before(relation, message[5], before), "null")

    def _truncate(self, lsn: int, message: bytes) -> None:
        oids = struct.unpack_from(f">{_INT(message, 1)[0]}I", message, 6)
        names = ", ".join(self._relations[oid].name if oid in self._relations else str(oid) for oid in oids)
        raise UnsupportedChangeError(f"{names}: TRUNCATE names no rows; publish no truncations, or use DELETE")

    def _add(self, relation: Relation, lsn: int, op: str, key: str, before: str, after: str) -> None:
        self.records.add(relation, lsn, self._time_us, op, key, before, after, self._tail)


def _name(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1


def _row(message: bytes, at: int, relation: Relation, before: Sequence[str] | None = None) -> tuple[list[str], int]:
    """The JSON of each value of a row that begins at some place, and where it ends."""
    at += 2  # the number of columns, which the relation tells
    row = []
    for column, write in enumerate(relation.writers):
        kind = message[at]
        at += 1
        if kind == _TEXT:
            start = at + 4
            at = start + _INT(message, at)[0]
            row.append(write(message[start:at].decode()))
        elif kind == _NULL:
            row.append("null")
        elif kind == _UNCHANGED and before is not None:
            row.append(before[column])
        else:
            raise UnsupportedChangeError(
                f"{relation.name}: the log leaves out {relation.columns[column]}, a long value that an update has not "
                "changed; run ALTER TABLE … REPLICA IDENTITY FULL"
            )
    return row, at


def _key(relation: Relation, row: Sequence[str]) -> str:
    return relation.key_form % tuple([row[column] for column in relation.key])


def _before(relation: Relation, kind: int, row: Sequence[str] | None) -> str:
    """What the log tells of a row before a change: nothing, its key or all of it."""
    if row is None:
        return "null"
    return relation.row_form % tuple(row) if kind == _OLD_ROW else _key(relation, row)
