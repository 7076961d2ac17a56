"""Tables to be changed row by row, and what is changed in them, without the jobs that do so for users."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import skerry
from skerry.iceberg.catalogs.pyiceberg_catalogs import as_pyiceberg
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.manifests.manifest import ManifestEntry
from skerry.iceberg.manifests.manifest_list import ManifestContent, ManifestFile, read_manifest_list
from skerry.iceberg.manifests.reader import read_manifest
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from skerry.iceberg.writing.table_writers import write_batches
from skerry.table.files.data_file import DataFile
from skerry.table.predicate import Predicate, parse
from skerry.table.rows.metadata_columns import LINEAGE_COLUMNS
from skerry.table.statistics.written_file import WrittenFile

SCHEMA = pa.schema([pa.field("k", pa.int64()), pa.field("p", pa.int64()), pa.field("v", pa.string())])


def rows(keys: range | list[int], p: int, v: str = "old") -> pa.Table:
    """One row per key, all of partition `p`."""
    return pa.table({"k": list(keys), "p": [p] * len(keys), "v": [v] * len(keys)}, schema=SCHEMA)


@dataclass
class ChangedTable:
    """A table partitioned by `p` with one file `a` of keys 0 to 4 (p = 0) and one `b` of keys 10 to 14 (p = 1)."""

    table: IcebergHandle
    a: DataFile = field(init=False)
    b: DataFile = field(init=False)

    def __post_init__(self) -> None:
        self.a = self.add(rows(range(5), 0))
        self.b = self.add(rows(range(10, 15), 1))

    def add(self, data: pa.Table) -> DataFile:
        """Append rows of one partition."""
        files = self.write(data)
        self.table.append(files)
        return files[0].data_file

    def write(self, data: pa.Table, *, lineage: bool = False) -> list[WrittenFile]:
        """Write data files that belong to no table yet."""
        layout = self.table.layout(lineage=lineage)
        schema = pa.schema([*layout.schema, *(LINEAGE_COLUMNS if lineage else [])])
        return write_batches(layout, data.cast(schema).to_batches())

    def delete_rows(self, *deletes: tuple[DataFile, list[int]]) -> list[ManifestEntry]:
        """Write delete files as the table's version wants them."""
        write = write_deletion_vectors if self.version >= 3 else write_position_deletes
        return write(self.table.layout(), [(file, np.array(positions)) for file, positions in deletes])

    def delete_keys(self, keys: list[int], p: int) -> list[ManifestEntry]:
        """Write equality deletes by `k`."""
        return write_equality_deletes(self.table.layout(), rows(keys, p).to_batches(), [self.field_id("k")])

    def field_id(self, name: str) -> int:
        return int(self.table.state.metadata.schema().find_field(name).field_id)

    def where(self, text: str) -> Predicate:
        return parse(text, self.table.state.schema)

    @property
    def version(self) -> int:
        return int(self.table.state.metadata.format_version)

    @property
    def snapshot_id(self) -> int:
        snapshot = self.table.state.snapshot()
        assert snapshot is not None
        return int(snapshot.snapshot_id)

    @property
    def summary(self) -> dict[str, str]:
        snapshot = self.table.state.snapshot()
        assert snapshot is not None
        assert snapshot.summary is not None
        return {name: str(value) for name, value in snapshot.summary.items()}

    def manifests(self, content: ManifestContent = ManifestContent.DATA) -> list[ManifestFile]:
        """The manifests of the current snapshot."""
        snapshot = self.table.state.snapshot()
        assert snapshot is not None
        listed = read_manifest_list(self.table.state.storage, snapshot.manifest_list)
        return [manifest for manifest in listed if manifest.content is content]

    def entries(self, content: ManifestContent = ManifestContent.DATA) -> dict[str, ManifestEntry]:
        """The entries of the current snapshot by location, those of vectors by location and offset."""
        return {
            entry.data_file.location + (f"@{entry.content_offset}" if entry.is_deletion_vector else ""): entry
            for manifest in self.manifests(content)
            for entry in read_manifest(self.table.state.storage, manifest).entries()
        }

    def by_pyiceberg(self) -> list[int]:
        """The keys that PyIceberg reads, in order."""
        return sorted(
            as_pyiceberg(self.table.catalog).load_table(self.table.identifier).scan().to_arrow()["k"].to_pylist()
        )


def changed_table(folder: Path, version: int = 2, *, partitioned: bool = True, **properties: str) -> ChangedTable:
    """Make the table in a new warehouse, without sketches unless asked for; retries do not wait."""
    fast = {"commit.retry.min-wait-ms": "1", "skerry.statistics.enabled": "false"}
    settings = {**fast, **{name.replace("__", "."): text for name, text in properties.items()}}
    table = skerry.connect(folder).create_table(
        "d.t", SCHEMA, partition_by=["p"] if partitioned else [], format_version=version, properties=settings
    )
    return ChangedTable(table.handle)


class Raced:
    """An operation that a rival overtakes between its first decision and its first attempt to publish."""

    def __init__(self, operation: Any, rival: Callable[[], None]) -> None:
        self.operation = operation
        self.rival = rival
        self.attempts = 0

    def apply(self, base: Any) -> Any:
        self.attempts += 1
        change = self.operation.apply(base)
        if self.attempts == 1:
            self.rival()
        return change
