"""Copies of Paimon tables, read and written by Paimon Java and PyPaimon."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from paimon_peers import JavaPaimon, PyPaimon

import skerry
from skerry.errors import ConflictError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string())])
KINDS = {
    "plain": {},
    "vectors": {"properties": {"deletion-vectors.enabled": "true"}},
    "keyed": {"primary_key": ["id"], "partition_by": ["bucket(2, id)"]},
}


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"id": list(range(start, stop)), "s": [f"s{n % 5}" for n in range(start, stop)]}, schema=SCHEMA)


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_java_reads_and_writes_copies(tmp_path: Path, java_paimon: JavaPaimon, pypaimon: PyPaimon, kind: str) -> None:
    table = skerry.connect(tmp_path / "lake").create_table("n.t", SCHEMA, format="paimon", **KINDS[kind])
    table.append(rows(0, 20))
    java_paimon.write(table.location, [[40, "java"], [41, None]])
    table.refresh().delete("id = 5")
    table.create_tag("then")
    if kind == "plain":
        table.create_branch("b", ref="then")
    other = skerry.connect(tmp_path / "other")
    table.copy_to(catalog=other, name="m.t")
    copy = other.load_table("m.t")
    expected = sorted([*([n, f"s{n % 5}"] for n in range(20) if n != 5), [40, "java"], [41, None]])
    assert sorted(java_paimon.read(copy.location)) == expected
    assert sorted([row["id"], row["s"]] for row in pypaimon.read(copy.location).to_pylist()) == expected
    if kind == "plain":
        assert sorted(java_paimon.read(copy.location, branch="b")) == expected
    for name in ("snapshots", "schemas", "tags", "files"):
        count = len(java_paimon.system(table.location, name))
        assert len(java_paimon.system(copy.location, name)) == count
    # brought up to date, then written by Java
    java_paimon.write(table.location, [[50, "more"]], compaction="full" if kind == "keyed" else None)
    table.refresh()
    table.copy_to(catalog=other, name="m.t")
    assert sorted(java_paimon.read(copy.location)) == sorted([*expected, [50, "more"]])
    java_paimon.write(copy.location, [[60, "copy"]])
    assert sorted(java_paimon.read(copy.location)) == sorted([*expected, [50, "more"], [60, "copy"]])
    assert sorted(java_paimon.read(table.location)) == sorted([*expected, [50, "more"]])
    with pytest.raises(ConflictError, match="is the copy's own"):
        table.copy_to(catalog=other, name="m.t")


@pytest.mark.spark
def test_java_reads_external_files_of_a_copy(tmp_path: Path, java_paimon: JavaPaimon) -> None:
    lake = skerry.connect(tmp_path / "lake")
    lake.create_table("n.t", SCHEMA).append(rows(0, 9))
    lake.migrate("n.t", format="paimon")
    prefixes = {f"file://{tmp_path}/lake/n/t": f"file://{tmp_path}/external"}
    done = lake.load_table("n.t").copy_to(tmp_path / "copy", prefixes=prefixes)
    (tmp_path / "lake").rename(tmp_path / "gone")
    assert sorted(row[0] for row in java_paimon.read(done.location)) == list(range(9))
