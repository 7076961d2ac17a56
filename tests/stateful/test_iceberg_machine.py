"""Everything that can be done to an Iceberg table, in random order, against plain dictionaries.

`make test` runs a few histories, the same in every run; `make torture` runs as many as `SKERRY_HISTORIES` says, and new
ones every time.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from landing_machine import LandingMachine
from pyiceberg.table import StaticTable
from table_machine import FormatUnderTest
from table_model import KEY

import skerry
from skerry.iceberg.metadata.transforms import VoidTransform
from skerry.table.statistics.pieces import growing

_HISTORIES = os.environ.get("SKERRY_HISTORIES")
_MODES = st.sampled_from(["copy-on-write", "merge-on-read"])


@dataclass(frozen=True)
class Choices:
    """How a table is made."""

    format_version: int
    partition_by: tuple[str, ...]
    sort_by: tuple[str, ...]
    mode: str
    file_format: str
    max_groups: str


def _create(catalog: skerry.catalog.Catalog, schema: pa.Schema, choices: Choices) -> skerry.catalog.Table:
    mode = choices.mode if choices.format_version > 1 else "copy-on-write"
    return catalog.create_table(
        "d.t",
        schema,
        partition_by=list(choices.partition_by),
        sort_by=list(choices.sort_by),
        format_version=choices.format_version,
        properties={
            "write.delete.mode": mode,
            "write.merge.mode": mode,
            "write.format.default": choices.file_format,
            "commit.manifest.min-count-to-merge": "3",
            "skerry.statistics.max-groups": choices.max_groups,
        },
    )


def _read_with_pyiceberg(table: skerry.catalog.Table) -> pa.Table | None:
    """PyIceberg reads no equality deletes, and no Avro."""
    snapshot = table.current_snapshot()
    has_key_deletes = snapshot is not None and snapshot.summary.get("total-equality-deletes") != "0"
    if has_key_deletes or {file.file_format for file in table.files()} - {"parquet"}:
        return None
    return StaticTable.from_metadata(table.metadata_location).scan().to_arrow()


def _change_layout(table: skerry.catalog.Table, data: st.DataObject) -> str:
    """Partitioning, sort order, format version, delete mode, file format."""
    kind = data.draw(st.sampled_from(["partition", "unpartition", "sort", "upgrade", "mode", "format"]), "layout")
    if kind == "partition":
        fields = {"id": ["bucket(3, id)", "truncate(5, id)"], "grp": ["grp", "bucket(2, grp)"]}
        free = [column for column in fields if not _is_in_partitions(table, column)]
        if free:
            column = data.draw(st.sampled_from(free), "column")
            table.update_spec().add_field(data.draw(st.sampled_from(fields[column]), "field")).commit()
    elif kind == "unpartition":
        spec = table.handle.state.spec
        fields = [field.name for field in spec.fields if not isinstance(field.transform, VoidTransform)]
        if fields:
            table.update_spec().remove_field(data.draw(st.sampled_from(fields), "field")).commit()
    elif kind == "sort":
        table.update_sort_order(data.draw(st.sampled_from([[], ["id desc"], ["grp", "id"]]), "order"))
    elif kind == "upgrade":
        version = data.draw(st.integers(table.format_version, 3), "version")
        table.upgrade(version)
    elif kind == "mode" and table.format_version > 1:
        table.set_properties({"write.delete.mode": data.draw(_MODES), "write.merge.mode": data.draw(_MODES)})
    elif kind == "format":
        table.set_properties({"write.format.default": data.draw(st.sampled_from(["parquet", "orc", "avro"]))})
    return kind


def _is_in_partitions(table: skerry.catalog.Table, column: str) -> bool:
    return any(column in term for term in table.partition_by)


def _is_in_layout(table: skerry.catalog.Table, column: str) -> bool:
    return _is_in_partitions(table, column) or any(column in term for term in table.sort_by)


def _takes_key_deletes(table: skerry.catalog.Table) -> bool:
    """Version 1 has none, and the partitions of keys must be known from the keys, those of older files too."""
    metadata = table.handle.state.metadata
    key = metadata.schema().find_field(KEY).field_id
    fields = [field for spec in metadata.specs().values() for field in spec.fields]
    return table.format_version > 1 and all(
        field.source_id == key or isinstance(field.transform, VoidTransform) for field in fields
    )


def _row_ids(table: skerry.catalog.Table, branch: str) -> Mapping[int, int]:
    """The rows' ids; rows from before version 3 have none until the next commit."""
    if table.format_version < 3:
        return {}
    rows = table.scan([KEY, "_row_id"], ref=branch).to_arrow().to_pylist()
    return {row[KEY]: row["_row_id"] for row in rows if row["_row_id"] is not None}


ICEBERG = FormatUnderTest(
    create=_create,
    choices=st.builds(
        Choices,
        format_version=st.sampled_from([1, 2, 3]),
        partition_by=st.sampled_from([(), ("grp",), ("bucket(4, id)",), ("truncate(1, word)", "grp")]),
        sort_by=st.sampled_from([(), ("id",), ("word desc", "id")]),
        mode=_MODES,
        file_format=st.sampled_from(["parquet", "parquet", "orc", "avro", "amudai"]),
        max_groups=st.sampled_from(["2", "128"]),
    ),
    can=frozenset(
        {
            "delete",
            "overwrite",
            "upsert",
            "blind upsert",
            "merge",
            "evolve",
            "change layout",
            "branch",
            "tag",
            "rollback",
            "compact",
            "analyze",
            "expire",
            "changes",
            "meet rivals",
            "stage",
            "cherry-pick",
            "add files",
            "index",
        }
    ),
    read_with_peer=_read_with_pyiceberg,
    change_layout=_change_layout,
    is_in_layout=_is_in_layout,
    row_numbers=_row_ids,
    takes_defaults=lambda table: table.format_version >= 3,
    takes_key_deletes=_takes_key_deletes,
)


class IcebergMachine(LandingMachine):
    """Samples of tables as small as these would be written whole: here, commits write pieces of them."""

    format = ICEBERG

    def __init__(self) -> None:
        super().__init__()
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(growing, "_pays", lambda *_: True)
        self._patch.setattr(growing, "_LEAST_BYTES", 0)

    def teardown(self) -> None:
        """Also after a failure."""
        self._patch.undo()
        super().teardown()


TestIcebergTable = pytest.mark.slow(IcebergMachine.TestCase)
TestIcebergTable.settings = settings(
    max_examples=int(_HISTORIES or 5),
    stateful_step_count=20 if _HISTORIES is None else 40,
    deadline=None,
    derandomize=_HISTORIES is None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
