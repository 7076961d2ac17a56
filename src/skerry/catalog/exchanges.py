"""Which exchange belongs to a table: the step from a table of any format to what frames and streams see of it."""

from __future__ import annotations

from typing import Any

from skerry.errors import UnsupportedError
from skerry.jobs.exchange import TableExchange

__all__ = ["exchange_of"]


def exchange_of(table_format: str, table: Any) -> TableExchange:
    """The exchange of a table.

    Args:
        table_format: Its format.
        table: What implements it.

    Raises:
        UnsupportedError: Rows of such tables are not exchanged in tasks.
    """
    # each loads what its format needs: tasks and steps of Spark run in processes of their own
    match table_format:
        case "iceberg":
            from skerry.iceberg.jobs.exchange import IcebergExchange

            return IcebergExchange(table)
        case "paimon":
            from skerry.paimon.jobs.exchange import PaimonExchange

            return PaimonExchange(table)
    raise UnsupportedError(f"rows of {table_format} tables are not read and written in tasks")
