"""The data of TPC-H, made once by `tpchgen-cli` under `.cache/`; always the same, from the specification's seeds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

CACHE = Path(__file__).parents[1] / ".cache"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def make_files(scale: str, parent: Path = CACHE) -> Path:
    """The folder with a Parquet file of each table at a scale factor."""
    folder = parent / f"tpch-{scale}"
    if not all((folder / f"{table}.parquet").exists() for table in TABLES):
        _generate("-s", scale, "--output-dir", str(folder))
    return folder


def make_lineitem() -> Path:
    """Lineitem at scale factor 1, 6,001,215 rows."""
    path = CACHE / "tpch" / "lineitem.parquet"
    if not path.exists():
        _generate("-s", "1", "--tables", "lineitem", "--output-dir", str(path.parent))
    return path


def lineitem_rows(count: int | None = None) -> pa.Table:
    """The first rows of lineitem, or all, with texts as most tables hold them and not as views."""
    rows = pq.read_table(make_lineitem()).slice(0, count)
    texts = {pa.string_view(): pa.string()}
    return rows.cast(pa.schema([field.with_type(texts.get(field.type, field.type)) for field in rows.schema]))


def _generate(*options: str) -> None:
    subprocess.run([Path(sys.executable).with_name("tpchgen-cli"), "parquet", *options], check=True)
