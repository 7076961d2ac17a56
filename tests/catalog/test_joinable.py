"""Joinable columns: what is found, with what bounds, at what cost, and what is left out and why."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.table.statistics import BlobMetadata, StatisticsFile
from rivals import peer

import skerry
from skerry.catalog import Catalog
from skerry.cli.app import app
from skerry.errors import NotFoundError
from skerry.iceberg.statistics.registered import THETA_BLOB
from skerry.iceberg.statistics.sketch_cache import SketchCache, shared_sketch_cache, table_sketches
from skerry.puffin import PuffinWriter
from skerry.storage import Storage
from skerry.table.statistics.joinable import hashed_kind
from skerry.table.work.batch_folder import BatchFolder
from skerry.theta import ThetaSketch


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    made = skerry.connect(tmp_path)
    numbers = np.arange(30_000, dtype=np.int64)
    data = {
        "shop.customers": {"id": pa.array(numbers), "born": pa.array(numbers.astype(np.int32) % 20_000, pa.date32())},
        "shop.orders": {
            "customer": pa.array(numbers % 10_000),
            "narrow": pa.array(numbers.astype(np.int32)),
            "at": pa.array(numbers, pa.timestamp("us")),
            "days": pa.array(numbers.astype(np.int32) % 20_000),
        },
        "web.visits": {"visitor": pa.array(numbers + 15_000), "page": pa.array([f"p{i % 50}" for i in numbers])},
    }
    for name, columns in data.items():
        table = pa.table(columns)
        made.create_table(name, table.schema).append(table)
    return made


def test_shares_lie_within_their_bounds(catalog: Catalog) -> None:
    found = catalog.joinable("shop.customers", "id")
    assert [(match.table, match.column) for match in found] == [("web.visits", "visitor"), ("shop.orders", "customer")]
    visitor, customer = found
    truths = [
        (visitor.containment, 0.5),
        (visitor.contained, 0.5),
        (visitor.jaccard, 1 / 3),
        (customer.containment, 1 / 3),
        (customer.contained, 1.0),
        (customer.jaccard, 1 / 3),
    ]
    for share, truth in truths:
        assert share.lower - 0.01 <= truth <= share.upper + 0.01
        assert share.lower <= share.estimate <= share.upper
    assert customer.lower <= 10_000 <= customer.upper
    assert customer.freshness.is_fresh
    assert found.compared == 2  # int64 alone: neither int32 nor dates nor times, whose bytes would be the same
    assert found.not_compared == ()


def test_types_that_hash_alike_are_still_not_compared(catalog: Catalog) -> None:
    assert [match.column for match in catalog.joinable("shop.orders", "days")] == ["narrow"]
    assert list(catalog.joinable("shop.customers", "born")) == []
    assert hashed_kind(pa.decimal128(10, 2)) == hashed_kind(pa.decimal128(20, 2)) != hashed_kind(pa.decimal128(10, 3))
    assert hashed_kind(pa.binary(4)) == hashed_kind(pa.binary()) != hashed_kind(pa.string())
    assert hashed_kind(pa.timestamp("us")) != hashed_kind(pa.timestamp("us", "UTC"))


def test_thresholds_and_limits(catalog: Catalog) -> None:
    assert len(catalog.joinable("shop.customers", "id", limit=1)) == 1
    near = catalog.joinable("shop.customers", "id", min_containment=0.9)
    assert [match.column for match in near] == ["customer"]


def test_what_is_not_fresh_is_left_out_and_said(catalog: Catalog) -> None:
    table = catalog.load_table("web.visits")
    table.set_properties({"skerry.statistics.enabled": "false"})
    table.append(pa.table({"visitor": pa.array([1], pa.int64()), "page": ["p0"]}))
    found = catalog.joinable("shop.customers", "id")
    assert [match.table for match in found] == ["shop.orders"]
    left_out = {without.column: without.reason for without in found.not_compared if without.table == "web.visits"}
    assert left_out["visitor"].startswith("stale: 1 snapshot")
    with pytest.raises(NotFoundError, match=r"'visitor' of web.visits has no fresh sketch: stale: 1 snapshot"):
        catalog.joinable("web.visits", "visitor")


def test_a_table_that_cannot_be_read_does_not_hide_the_others(catalog: Catalog) -> None:
    file = catalog.load_table("web.visits").handle.state.metadata.statistics[-1]
    Path(file.statistics_path.removeprefix("file://")).unlink()
    shared_sketch_cache().clear()
    found = catalog.joinable("shop.customers", "id")
    assert [match.table for match in found] == ["shop.orders"]
    assert [(without.table, without.column) for without in found.not_compared] == [("web.visits", None)]
    with pytest.raises(NotFoundError, match=r"'web.visits' cannot be read"):
        catalog.joinable("web.visits", "visitor")


def test_new_rows_are_seen_and_dropped_tables_forgotten(catalog: Catalog) -> None:
    assert len(catalog.joinable("shop.customers", "id")) == 2
    numbers = np.arange(15_000, dtype=np.int64)
    rows = pa.table({"visitor": pa.array(numbers), "page": pa.array(["x"] * len(numbers))})
    catalog.load_table("web.visits").append(rows)
    catalog.drop_table("shop.orders")
    (match,) = catalog.joinable("shop.customers", "id")
    assert (match.table, match.containment.estimate) == ("web.visits", 1.0)


def test_unknown_names_propose_the_nearest(catalog: Catalog) -> None:
    with pytest.raises(NotFoundError, match=r"did you mean 'shop.orders'"):
        catalog.joinable("shop.order", "customer")
    with pytest.raises(NotFoundError, match=r"no primitive column 'custmer' in shop.orders; did you mean 'customer'"):
        catalog.joinable("shop.orders", "custmer")


def test_one_range_per_statistics_file_then_none(catalog: Catalog, tmp_path: Path) -> None:
    state = catalog.load_table("shop.orders").handle.state
    cache = SketchCache(1 << 30, BatchFolder(tmp_path / "sketches", 1 << 30))
    before = state.storage.metrics.counts()
    first = table_sketches(state, cache)
    assert state.storage.metrics.counts().requests - before.requests == 1
    later = SketchCache(1 << 30, BatchFolder(tmp_path / "sketches", 1 << 30))
    for again in (cache, later):
        known = table_sketches(state, again)
        assert np.array_equal(known.sketches.sketch(0).hashes, first.sketches.sketch(0).hashes)
    assert state.storage.metrics.counts().requests - before.requests == 1
    assert cache.used_bytes > 0
    tiny = SketchCache(1)
    table_sketches(state, tiny)
    assert tiny.used_bytes == 0


def test_the_command(catalog: Catalog, tmp_path: Path) -> None:
    runner = CliRunner()
    printed = runner.invoke(app, ["joinable", "shop.customers", "id", "-w", str(tmp_path)]).output.splitlines()
    assert printed[0].split("\t") == ["table", "column", "type", "containment", "contained", "jaccard", "distinct"]
    assert printed[1].startswith("web.visits\tvisitor\tint64\t0.")
    output = runner.invoke(app, ["joinable", "shop.customers", "id", "--json", "-n", "1", "-w", str(tmp_path)]).output
    (record,) = json.loads(output)
    assert record["containment_lower"] < record["containment"] < record["containment_upper"]
    assert record["freshness"] == "fresh"


def test_uuids_that_another_writer_hashed_as_text_are_not_compared(tmp_path: Path) -> None:
    catalog = skerry.connect(tmp_path)
    values = [uuid.UUID(int=number) for number in range(1000)]
    rows = pa.table({"id": pa.array([value.bytes for value in values], pa.uuid())})
    for name in ("d.own", "d.foreign"):
        catalog.create_table(name, rows.schema).append(rows)
    assert [match.table for match in catalog.joinable("d.own", "id")] == ["d.foreign"]

    publish_as_java(tmp_path, "d.foreign", ThetaSketch().update(pa.array([str(value) for value in values])))

    found = catalog.joinable("d.own", "id")
    assert list(found) == []
    assert [(left.table, left.column) for left in found.not_compared] == [("d.foreign", "id")]
    assert "another writer sketched these UUIDs" in found.not_compared[0].reason
    known = catalog.load_table("d.foreign").statistics()["id"]
    assert known.freshness.is_fresh
    assert known.ndv == 1000
    assert known.sketch is None
    told = str(catalog.explain("select * from d.own join d.foreign on own.id = foreign.id"))
    assert "foreign.id: assumed to be a key or a reference to it (it has no sketch to compare)" in told

    catalog.load_table("d.foreign").analyze(full=True)
    assert [match.table for match in catalog.joinable("d.own", "id")] == ["d.foreign"]


def publish_as_java(warehouse: Path, name: str, sketch: ThetaSketch) -> None:
    """Register a sketch of a table's first column as Iceberg's procedure in Spark would."""
    table = peer(warehouse, name)
    snapshot = table.current_snapshot()
    about = {"snapshot_id": snapshot.snapshot_id, "sequence_number": snapshot.sequence_number}
    properties = {"ndv": str(int(sketch.estimate()))}
    writer = PuffinWriter({"created-by": "Apache Iceberg 1.10.0"})
    writer.add_blob(THETA_BLOB, sketch.serialize(), fields=[1], properties=properties, **about)
    location = f"{table.location()}/metadata/java.stats"
    size, footer_size = writer.write(location, storage=Storage())
    blob = BlobMetadata(type=THETA_BLOB, fields=[1], properties=properties, **about)
    file = StatisticsFile(
        snapshot_id=snapshot.snapshot_id,
        statistics_path=location,
        file_size_in_bytes=size,
        file_footer_size_in_bytes=footer_size,
        blob_metadata=[blob],
    )
    with table.update_statistics() as update:
        update.set_statistics(file)
