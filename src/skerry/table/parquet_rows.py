"""The names under which rows were read when they came from Parquet files only."""

from __future__ import annotations

from skerry.table.read_ahead import default_threads
from skerry.table.row_reader import RowReader

__all__ = ["RowReader", "default_threads"]
