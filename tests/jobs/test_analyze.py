"""Analyze sketches the rows that are alive, wherever they lie and whatever they are written in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skerry
from skerry.iceberg.operations import RowDelta
from skerry.iceberg.writing.delete_files import write_deletion_vectors, write_position_deletes

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def rows(*keys):
    return pa.table({"k": list(keys), "v": [f"v{k % 3}" for k in keys]}, SCHEMA)


def counted(table):
    found = table.refresh().statistics()
    assert all(column.freshness.is_fresh for column in found.values())
    return {name: column.ndv for name, column in found.items()}


@pytest.mark.parametrize("format_version", [2, 3])
def test_deleted_rows_do_not_count(tmp_path, format_version):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, format_version=format_version)
    table.append(rows(*range(9)))
    implementation = table.handle
    write = write_deletion_vectors if format_version == 3 else write_position_deletes
    deletes = write(implementation.layout(), [(table.files()[0], np.array([0, 3, 6]))])
    starting = implementation.state.snapshot().snapshot_id
    implementation.commit(RowDelta((), tuple(deletes), starting_snapshot_id=starting))
    assert not any(freshness.is_fresh for freshness in table.refresh().freshness().values())
    table.analyze()
    assert counted(table) == {"k": 6, "v": 2}


@pytest.mark.parametrize("file_format", ["orc", "avro"])
def test_other_file_formats(tmp_path, file_format):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, properties={"write.format.default": file_format})
    table.append(rows(1, 2, 3))
    table.append(rows(3, 4))
    assert {file.file_format for file in table.files()} == {file_format}
    table.analyze()
    assert counted(table) == {"k": 4, "v": 3}


def test_defaults_of_columns_added_later_count(tmp_path):
    table = skerry.connect(tmp_path).create_table("d.t", SCHEMA, format_version=3)
    table.append(rows(1, 2))
    table.update_schema().add_column("w", pa.int32(), default_value=7).commit()
    table.refresh().analyze()
    assert counted(table) == {"k": 2, "v": 2, "w": 1}
