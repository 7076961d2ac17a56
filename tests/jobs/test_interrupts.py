"""What is left when an operation is interrupted right before and right after its publish step, in both formats.

Before the effect, nothing has happened: the rows are as they were. After it, everything has: the table is read, and no
file is gone that it needs.
"""

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.iceberg.commit import IcebergTarget
from skerry.iceberg.jobs import publish
from skerry.paimon.commit import PaimonTarget
from skerry.paimon.jobs import publish as paimon_publish
from skerry.table.connector.publication import Publication, WriteMode

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])


def rows(*keys, v="new"):
    return pa.table({"k": list(keys), "v": [v] * len(keys)}, schema=SCHEMA)


def foreign_file(table):
    location = f"{table.location}/data/foreign.parquet"
    Path(location.removeprefix("file://")).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows(70).cast(table.schema), location.removeprefix("file://"))
    return location


def shares(table, mode):
    publication = Publication(mode, on=("k",) if mode is WriteMode.UPSERT else ())
    inner = table.handle
    if table.format == "iceberg":
        layout = inner.layout()
        written = [publish.write_share(layout, mode, rows(key).to_batches()) for key in (1, 40)]
        publish.publish(inner, layout, written, publication)
    else:
        layout = paimon_publish.ShareLayout.of(inner, publication)
        written = [paimon_publish.write_share(layout, mode, rows(key).to_batches()) for key in (1, 40)]
        paimon_publish.publish(inner, layout, written, publication)


COMMON = {
    "append": lambda table: table.append(rows(40)),
    "delete": lambda table: table.delete("k < 5"),
    "overwrite": lambda table: table.overwrite(rows(1, 40), "k < 5"),
    "overwrite all": lambda table: table.overwrite(rows(1, 40)),
    "upsert": lambda table: table.upsert(rows(1, 40), on="k"),
    "merge": lambda table: table.merge(rows(1, 40), on="k", when_matched="update", when_not_matched="insert"),
    "compact": lambda table: table.compact(full=True),
    "analyze": lambda table: table.analyze(full=True),
    "publish shares": lambda table: shares(table, WriteMode.APPEND),
    "publish an upsert": lambda table: shares(table, WriteMode.UPSERT),
}
ICEBERG = {
    "append a file": lambda table: table.add_files([foreign_file(table)]),
    "rewrite manifests": lambda table: table.rewrite_manifests(full=True),
    "expire": lambda table: table.expire_snapshots(older_than=datetime.now(UTC)),
    "set a property": lambda table: table.set_properties({"a": "b"}),
    "add a column": lambda table: table.update_schema().add_column("w", pa.int64()).commit(),
    "branch": lambda table: table.create_branch("b"),
}
MARK = {"write.delete.mode": "merge-on-read", "write.merge.mode": "merge-on-read"}
TABLES = {
    "iceberg": ({"format": "iceberg"}, {**COMMON, **ICEBERG}),
    "iceberg, merge on read": (
        {"format": "iceberg", "format_version": 3, "properties": MARK},
        {name: COMMON[name] for name in ("delete", "overwrite", "upsert", "merge", "compact")},
    ),
    "iceberg, positions": (
        {"format": "iceberg", "format_version": 2, "properties": MARK},
        {"rewrite deletes": lambda table: table.rewrite_deletes()},
    ),
    "paimon": ({"format": "paimon"}, COMMON),
    "paimon, vectors": (
        {"format": "paimon", "properties": {"deletion-vectors.enabled": "true"}},
        {name: COMMON[name] for name in ("delete", "overwrite", "upsert", "merge", "compact")},
    ),
    "paimon, key": (
        {"format": "paimon", "primary_key": ["k"], "partition_by": ["bucket(2, k)"]},
        COMMON,
    ),
    "paimon, dynamic buckets": (
        {"format": "paimon", "primary_key": ["k"], "properties": {"bucket": "-1"}},
        {name: COMMON[name] for name in ("append", "delete", "upsert", "compact", "publish shares")},
    ),
}
CASES = [(kind, name) for kind, (_, operations) in TABLES.items() for name in operations]


@pytest.fixture
def make(tmp_path):
    def make(kind):
        catalog = skerry.connect(tmp_path / "warehouse")
        table = catalog.create_table("d.t", SCHEMA, **TABLES[kind][0])
        for start in (0, 10):
            table.append(rows(*range(start, start + 10), v="old"))
        if "write.delete.mode" in table.properties:
            table.delete("k = 9")
            table.delete("k = 8")
        return catalog, table

    return make


def content(catalog):
    found = catalog.load_table("d.t").scan().to_arrow().select(["k", "v"])
    return sorted(zip(*found.to_pydict().values(), strict=True))


def files_below(folder):
    return {path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("catalog.db")}


def interrupted(monkeypatch, operation, table, *, after):
    """Do an operation whose publish step is interrupted."""
    armed = [True]

    def failing(publish):
        def publish_and_fail(self, staged):
            if not armed:
                return publish(self, staged)
            armed.clear()
            if after:
                publish(self, staged)
            raise KeyboardInterrupt

        return publish_and_fail

    with monkeypatch.context() as patch:
        for target in (IcebergTarget, PaimonTarget):
            patch.setattr(target, "publish", failing(target.publish))
        with pytest.raises(KeyboardInterrupt):
            operation(table)


@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda text: text)
def test_interrupts_around_the_publish_step(make, kind, name, monkeypatch, tmp_path):
    catalog, table = make(kind)
    before, operation = content(catalog), TABLES[kind][1][name]
    interrupted(monkeypatch, operation, table, after=False)
    assert content(catalog) == before

    kept = files_below(tmp_path)
    interrupted(monkeypatch, operation, table, after=True)
    assert kept <= files_below(tmp_path) | {path for path in kept if path.suffix == ".arrow" or name == "expire"}
    done = content(catalog)
    expected = {
        "append": {*before, (40, "new")},
        "delete": {row for row in before if row[0] >= 5},
        "overwrite": {row for row in before if row[0] >= 5} | {(1, "new"), (40, "new")},
        "overwrite all": {(1, "new"), (40, "new")},
        "append a file": {*before, (70, "new")},
    }
    for upserted in ("upsert", "merge", "publish an upsert"):
        expected[upserted] = {row for row in before if row[0] != 1} | {(1, "new"), (40, "new")}
    if name == "publish shares":
        assert (40, "new") in done
        assert (1, "new") in done
    else:
        assert set(done) == expected.get(name, set(before))
    catalog.load_table("d.t").append(rows(99))
    assert (99, "new") in content(catalog)
