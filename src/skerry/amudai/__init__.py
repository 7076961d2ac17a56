"""Amudai shards, in the shape of `pyarrow.parquet`."""
