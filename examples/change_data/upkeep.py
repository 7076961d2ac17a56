"""Look after the tables while the stream writes them: few files, few deletes, few snapshots, until it is killed.

python upkeep.py warehouse/ shop.orders shop.orders_paimon --every-seconds 10
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime, timedelta

import skerry
from skerry.catalog import Table
from skerry.errors import ConflictError

__all__ = ["look_after", "main"]


def look_after(table: Table, keep_minutes: float = 1) -> str:
    """Compact a table, put its delete files together, let go of old snapshots with their files, and tell about it.

    Writers go on meanwhile: what they change stays changed. If they are faster, the next round gets it.

    Args:
        table: The table.
        keep_minutes: Readers may be so long at a snapshot.
    """
    try:
        compacted = table.refresh().compact()
        if table.format == "iceberg":
            table.rewrite_deletes()
    except ConflictError as error:
        return f"{table.name}: {error}"
    if not all(freshness.is_fresh for freshness in table.freshness().values()):
        table.analyze()  # records of a Paimon table replace rows that nobody has looked at
    expired = table.expire_snapshots(older_than=datetime.now(UTC) - timedelta(minutes=keep_minutes), keep_last=5)
    return (
        f"{table.name}: {compacted.rewritten_files} files written anew into {compacted.added_files}, "
        f"{len(expired.snapshot_ids)} snapshots and {len(expired.files)} files let go"
    )


def main() -> None:
    """Look after tables until killed."""
    parser = argparse.ArgumentParser(description="Look after tables while others write them.")
    parser.add_argument("warehouse")
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--every-seconds", type=float, default=10)
    arguments = parser.parse_args()
    catalog = skerry.connect(arguments.warehouse)
    tables = [catalog.load_table(name) for name in arguments.tables]
    while True:
        begun = time.monotonic()
        for table in tables:
            print(look_after(table), flush=True)
        time.sleep(max(0, begun + arguments.every_seconds - time.monotonic()))


if __name__ == "__main__":
    main()
