"""Capture the changes of a PostgreSQL table: logical decoding into a folder of record files, until it is killed.

    python capture.py postgresql://user@host/database shop.orders records/

The server needs `wal_level=logical`; the user must own the table and be allowed to replicate. The rows that are there
come first. Killed at whatever moment, it goes on where it was: the server keeps its log until the changes lie in a
file, and the file's name says which they are, so that none is lost and none is taken twice.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
from pgoutput import Decoder, Records, add_row, describe
from psycopg import sql
from record_files import RecordFolder

__all__ = ["Capture", "main"]

FILE_CHANGES = 100_000
"""About so many changes make a file, and more only if one transaction has them: none is cut."""

FETCHED_ROWS = 10_000
EMPTY_BYTES = 16 << 20
"""So much of the log may hold nothing of the table before it is let go all the same."""

_SETTINGS = "-c datestyle=ISO -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex -c intervalstyle=iso_8601"


class Capture:
    """The changes of a table on their way into a folder.

    Args:
        url: The database.
        table: The table, `schema.name`.
        folder: Where record files go.

    Raises:
        LookupError: The server does not have the changes any more that come after those in the folder.
    """

    def __init__(self, url: str, table: str, folder: str | Path) -> None:
        self._schema, _, self._name = table.rpartition(".")
        self._table = sql.Identifier(self._schema, self._name)
        self._slot = f"skerry_{self._schema}_{self._name}".lower()
        self._connection = psycopg.connect(url, autocommit=True, options=_SETTINGS)
        # One at a time: the connection of a capture that was killed a moment ago may still be at work.
        self._connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [self._slot])
        self._folder = RecordFolder(folder, topic=table)
        self._begin()

    def close(self) -> None:
        """Leave the database; another capture may go on."""
        self._connection.close()

    def run(self, poll_seconds: float) -> None:
        """Take changes for ever."""
        while True:
            if not self.take():
                time.sleep(poll_seconds)

    def take(self) -> int:
        """Take changes that are committed by now as one file, and return how many there were."""
        (log_end,) = self._one("SELECT (pg_current_wal_flush_lsn() - '0/0')::bigint")
        decoder, count = Decoder(self._primary_key), 0
        with self._folder.new_file() as file:
            for lsn, message in self._messages():
                decoder.decode(lsn, message)
                if len(decoder.records) >= FETCHED_ROWS:
                    count += file.write(decoder.take())
            count += file.write(decoder.take())
            if count:
                file.end_lsn = decoder.end_lsn
            elif log_end - self._folder.end_lsn > EMPTY_BYTES:
                file.end_lsn = log_end
        self._let_go()
        return count

    def _messages(self) -> Iterator[tuple[int, bytes]]:
        """Whole transactions of the log, from where the slot stands; the slot stays there."""
        query = (
            "SELECT (lsn - '0/0')::bigint, data FROM pg_logical_slot_peek_binary_changes("
            "%s, NULL, %s, 'proto_version', '1', 'publication_names', %s)"
        )
        with self._connection.transaction(), self._connection.cursor("changes", binary=True) as cursor:
            cursor.itersize = FETCHED_ROWS
            yield from cursor.execute(query, [self._slot, FILE_CHANGES, self._slot])

    def _let_go(self) -> None:
        """Let the server forget the changes that lie in files.

        Killed before this, the next capture does it first: what lies in files is never read again.
        """
        if self._folder.end_lsn > self._position():
            self._one("SELECT pg_replication_slot_advance(%s, '0/0'::pg_lsn + %s)", [self._slot, self._folder.end_lsn])

    # Beginning ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Go on where the files end; without any, begin with the rows that are there."""
        position = self._position()
        if self._folder.end_lsn is None:
            if position is None:
                self._make_slot()
            self._take_rows(self._position())
        elif position is None or position > self._folder.end_lsn:
            raise LookupError(
                f"slot {self._slot} has let go of changes after {self._folder.end_lsn:016x}, where the files in "
                f"{self._folder.folder} end: begin again, with an empty folder and new tables"
            )
        self._let_go()

    def _make_slot(self) -> None:
        publication = sql.Identifier(self._slot)
        self._connection.execute(sql.SQL("DROP PUBLICATION IF EXISTS {}").format(publication))
        self._connection.execute(sql.SQL("CREATE PUBLICATION {} FOR TABLE {}").format(publication, self._table))
        self._connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [self._slot])

    def _take_rows(self, position: int) -> None:
        """Take the rows that are there as the first file.

        The slot is older than this look at the table. So changes in between come again in the next files, in their
        order, and after them each row is what it should be.
        """
        oid, columns = self._columns()
        relation = describe(self._schema, self._name, columns, self._primary_key(oid))
        time_us, records = time.time_ns() // 1000, Records()
        with self._folder.new_file() as file, self._connection.cursor() as cursor:
            with cursor.copy(sql.SQL("COPY (SELECT * FROM {}) TO STDOUT").format(self._table)) as rows:
                for row in rows.rows():
                    add_row(records, relation, row, time_us)
                    if len(records) >= FETCHED_ROWS:
                        file.write(records)
                        records = Records()
            file.write(records)
            file.end_lsn = position

    # Asking ---------------------------------------------------------------------------------------------------------

    def _position(self) -> int | None:
        """Up to where the slot has let the log go; None if there is no slot."""
        query = "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = %s"
        row = self._one(query, [self._slot])
        return None if row is None else row[0]

    def _columns(self) -> tuple[int, list[tuple[str, int]]]:
        """The table's OID, and its columns with the OIDs of their types."""
        cursor = self._connection.execute(sql.SQL("SELECT * FROM {} LIMIT 0").format(self._table))
        (oid,) = self._one("SELECT %s::regclass::oid", [self._table.as_string(self._connection)])
        return oid, [(column.name, column.type_code) for column in cursor.description]

    def _primary_key(self, oid: int) -> list[str]:
        query = (
            "SELECT attname FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = ANY (indkey) "
            "WHERE indrelid = %s AND indisprimary ORDER BY array_position(indkey::int2[], attnum)"
        )
        return [name for (name,) in self._connection.execute(query, [oid])]

    def _one(self, query: str, parameters: list[object] | None = None) -> tuple | None:
        return self._connection.execute(query, parameters).fetchone()


def main() -> None:
    """Capture until killed."""
    parser = argparse.ArgumentParser(description="Capture the changes of a PostgreSQL table in record files.")
    parser.add_argument("url", help="the database")
    parser.add_argument("table", help="schema.name")
    parser.add_argument("folder", help="where record files go")
    parser.add_argument("--poll-seconds", type=float, default=0.2, help="how long to wait when there is nothing")
    arguments = parser.parse_args()
    Capture(arguments.url, arguments.table, arguments.folder).run(arguments.poll_seconds)


if __name__ == "__main__":
    main()
