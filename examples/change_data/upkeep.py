"""Look after the tables while the stream writes them: few files, few deletes, few snapshots, until told to stop.

python upkeep.py warehouse/ shop.orders shop.orders_paimon --every-seconds 10
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import skerry
from skerry.catalog import Table
from skerry.errors import ConflictError

__all__ = ["look_after", "main"]


def look_after(table: Table, keep_minutes: float = 1, say: Callable[[str], None] = print) -> None:
    """Compact a table, put its delete files together, and let go of old snapshots with their files.

    Writers go on meanwhile: what they change stays changed. If they are faster, the next round gets it.

    Args:
        table: The table.
        keep_minutes: Readers may be so long at a snapshot.
        say: Where to tell what was done.
    """
    try:
        compacted = table.refresh().compact()
        if table.format == "iceberg":
            table.rewrite_deletes()
    except ConflictError as error:
        say(f"{table.name}: {error}")
        return
    if not all(freshness.is_fresh for freshness in table.freshness().values()):
        table.analyze()  # records of a Paimon table replace rows that nobody has looked at
    expired = table.expire_snapshots(older_than=datetime.now(UTC) - timedelta(minutes=keep_minutes), keep_last=5)
    say(
        f"{table.name}: {compacted.rewritten_files} files written anew into {compacted.added_files}, "
        f"{len(expired.snapshot_ids)} snapshots and {len(expired.files)} files let go"
    )


def main() -> None:
    """Look after tables until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description="Look after tables while others write them.")
    parser.add_argument("warehouse")
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--every-seconds", type=float, default=10)
    arguments = parser.parse_args()
    stopped = threading.Event()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stopped.set())
    catalog = skerry.connect(arguments.warehouse)
    tables = [catalog.load_table(name) for name in arguments.tables]
    while not stopped.is_set():
        begun = time.monotonic()
        for table in tables:
            look_after(table)
        stopped.wait(max(0, begun + arguments.every_seconds - time.monotonic()))


if __name__ == "__main__":
    main()
