"""Create Paimon tables from the arguments of `Catalog.create_table`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from skerry.catalog.names import check_choice
from skerry.catalog.stores import FILE_FORMATS, NewTable
from skerry.errors import UnsupportedError
from skerry.paimon.metadata.creation import first_schema
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.table import PaimonTable
from skerry.storage import Storage

__all__ = ["create_paimon_table", "new_paimon_schema"]

_BUCKETS: Final = re.compile(r"\s*bucket\s*\(\s*(-?\d+)\s*((?:,\s*[^,()]+)*)\)\s*")


def create_paimon_table(storage: Storage, location: str, name: str, new: NewTable) -> None:
    """Create a table; see `skerry.catalog.stores.TableStore.create`."""
    PaimonTable.create(storage, location, new.schema, **_arguments(new), name=name)


def new_paimon_schema(new: NewTable) -> TableSchema:
    """The schema of a new table, for a server that creates it."""
    return first_schema(new.schema, **_arguments(new))


def _arguments(new: NewTable) -> dict[str, Any]:
    """What a new table is created with besides its columns.

    Raises:
        UnsupportedError: The table format does not support an argument.
    """
    check_choice("file_format", new.file_format, FILE_FORMATS)
    if new.sort_by:
        raise UnsupportedError(
            "sort_by= is only for Iceberg tables; rows of Paimon tables are sorted by their primary key"
        )
    partition_keys, options = _partitioning(new.partition_by)
    options |= new.properties
    if new.file_format != FILE_FORMATS[0]:
        options.setdefault("file.format", new.file_format)
    return {"partition_by": partition_keys, "primary_key": new.primary_key, "properties": options}


def _partitioning(transforms: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Partition keys, and the bucket options."""
    keys: list[str] = []
    options: dict[str, str] = {}
    for text in transforms:
        found = _BUCKETS.fullmatch(text)
        if found is not None and not options:
            options["bucket"] = found.group(1)
            columns = [name.strip() for name in found.group(2).split(",") if name.strip()]
            if columns:
                options["bucket-key"] = ",".join(columns)
        elif found is not None or "(" in text:
            raise UnsupportedError(
                f"partition_by {text!r}: Paimon tables are partitioned by columns and one bucket(n, columns…)"
            )
        else:
            keys.append(text.strip())
    return keys, options
