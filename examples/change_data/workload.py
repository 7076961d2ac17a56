"""A shop whose orders change: inserts, updates, deletes, changed keys, and transactions that are rolled back.

    python workload.py postgresql://user@host/database --transactions 1000 --rate 2000

Everything is drawn from a seed: the same seed does the same changes.
"""

from __future__ import annotations

import argparse
import random
import time

import psycopg

__all__ = ["TABLE", "Shop", "main", "mark"]

TABLE = "shop.orders"

_TABLE = """
CREATE SCHEMA IF NOT EXISTS shop;
CREATE TABLE IF NOT EXISTS shop.orders (
    id bigint PRIMARY KEY,
    customer integer NOT NULL,
    status text NOT NULL,
    amount numeric(12, 2) NOT NULL,
    weight double precision,
    paid boolean NOT NULL,
    changed timestamptz NOT NULL,
    note text
)
"""
_INSERT = """
INSERT INTO shop.orders
SELECT id, customer, 'new', amount, nullif(amount %% 10, 0)::double precision, false, to_timestamp(1.7e9 + amount), note
FROM unnest(%s::bigint[], %s::integer[], %s::numeric[], %s::text[]) AS new (id, customer, amount, note)
"""
_UPDATE = """
UPDATE shop.orders SET status = changes.status, amount = orders.amount + 1.25, paid = changes.status <> 'new',
    changed = orders.changed + interval '1.000001 s'
FROM unnest(%s::bigint[], %s::text[]) AS changes (id, status) WHERE orders.id = changes.id
"""
_DELETE = "DELETE FROM shop.orders WHERE id = ANY (%s)"
_RENUMBER = "UPDATE shop.orders SET id = %s, note = 'was ' || id WHERE id = %s"

_STATUS = ("new", "packed", "sent", "returned", 'größer als erwartet: "ja", 100 %')
_NOTES = (None, "", "two\nlines", "back\\slash and tab\t", "ключ 鍵 🔑", "null", "call first")
_CUSTOMERS = 2_000


class Shop:
    """The orders, as the workload knows them.

    Args:
        connection: The database, with autocommit; the table is made if it is not there.
        seed: What all is drawn from.

    Attributes:
        ids: Ids of the orders that are there.
        changes: How many changes were committed.
    """

    def __init__(self, connection: psycopg.Connection, seed: int) -> None:
        self._connection = connection
        self._random = random.Random(seed)
        connection.execute(_TABLE)
        self.ids = [id_ for (id_,) in connection.execute(f"SELECT id FROM {TABLE} WHERE id > 0 ORDER BY id")]
        self._gone: list[int] = []
        self._next_id = max(self.ids, default=0) + 1
        self.changes = 0

    def fill(self, count: int) -> None:
        """Insert so many orders."""
        with self._connection.transaction():
            self._insert(count)

    def run(self, transactions: int, rate: float | None = None) -> None:
        """Make so many transactions, if told so at about `rate` changes a second."""
        start, before = time.monotonic(), self.changes
        for _ in range(transactions):
            self._transact()
            if rate is not None:
                time.sleep(max(0, start + (self.changes - before) / rate - time.monotonic()))

    def _transact(self) -> None:
        before = list(self.ids), list(self._gone), self.changes
        roll_back = self._random.random() < 0.05
        with self._connection.transaction(force_rollback=roll_back):
            for _ in range(self._random.randint(1, 4)):
                action = self._random.choices((self._insert, self._update, self._delete, self._renumber), (4, 8, 3, 1))[
                    0
                ]
                action(int(self._random.paretovariate(0.8)) % 400 + 1)
        if roll_back:
            self.ids, self._gone, self.changes = before

    def _insert(self, count: int) -> None:
        new = [self._new_id() for _ in range(count)]
        customers = [int(self._random.paretovariate(0.7)) % _CUSTOMERS for _ in new]
        amounts = [f"{self._random.randrange(1, 1_000_000) / 100:.2f}" for _ in new]
        notes = [self._random.choice(_NOTES) for _ in new]
        self._connection.execute(_INSERT, [new, customers, amounts, notes])
        self.ids += new
        self.changes += count

    def _update(self, count: int) -> None:
        chosen = self._choose(count)
        statuses = [self._random.choice(_STATUS) for _ in chosen]
        self._connection.execute(_UPDATE, [chosen, statuses])
        self.changes += len(chosen)

    def _delete(self, count: int) -> None:
        chosen = self._choose(count)
        self._connection.execute(_DELETE, [chosen])
        gone = set(chosen)
        self.ids = [id_ for id_ in self.ids if id_ not in gone]
        self._gone += chosen
        self.changes += len(chosen)

    def _renumber(self, count: int) -> None:
        """Give orders new ids."""
        for old in self._choose(min(count, 3)):
            new = self._new_id()
            self._connection.execute(_RENUMBER, [new, old])
            self.ids[self.ids.index(old)] = new
            self.changes += 1

    def _new_id(self) -> int:
        """An id that no order has; sometimes one had it that was deleted."""
        if self._gone and self._random.random() < 0.1:
            return self._gone.pop(self._random.randrange(len(self._gone)))
        self._next_id += 1
        return self._next_id - 1

    def _choose(self, count: int) -> list[int]:
        """Orders that are there, new ones rather than old ones, none twice."""
        there = len(self.ids)
        places = {there - 1 - int(self._random.betavariate(0.5, 2) * there) for _ in range(count)} if there else set()
        return [self.ids[place] for place in sorted(places)]


def mark(connection: psycopg.Connection, sign: str) -> None:
    """Write a sign into order 0: whoever sees it has seen all changes before."""
    connection.execute(
        f"INSERT INTO {TABLE} VALUES (0, 0, %s, 0, NULL, false, 'epoch', NULL) "
        "ON CONFLICT (id) DO UPDATE SET status = excluded.status",
        [sign],
    )


def main() -> None:
    """Fill the shop and change its orders."""
    parser = argparse.ArgumentParser(description="Make a table of orders in PostgreSQL, and change it.")
    parser.add_argument("url", help="the database")
    parser.add_argument("--orders", type=int, default=10_000, help="how many there are at first")
    parser.add_argument("--transactions", type=int, default=1_000)
    parser.add_argument("--rate", type=float, help="changes a second; as fast as it goes if not given")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with psycopg.connect(arguments.url, autocommit=True) as connection:
        shop = Shop(connection, arguments.seed)
        shop.fill(arguments.orders)
        shop.run(arguments.transactions, arguments.rate)
        print(f"{shop.changes:,} changes; {len(shop.ids):,} orders are there")


if __name__ == "__main__":
    main()
