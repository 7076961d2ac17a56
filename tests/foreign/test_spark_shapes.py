"""Columns of shapes in tables that Spark and we share, and bounds as Iceberg Java computes and reads them."""

from __future__ import annotations

import math
import struct
import sys
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
import skerry.spark
from skerry.errors import SchemaError
from skerry.iceberg.metadata.types import parse_type
from skerry.wkb import Box, GlobeBoxes, box_of

sys.path.insert(0, str(Path(__file__).parents[1] / "iceberg"))
sys.path.insert(0, str(Path(__file__).parents[1] / "wkb"))
from java_manifests import JavaIceberg
from wkb_samples import line, point, polygon, random_shape

pytestmark = pytest.mark.spark

TYPES = {"g": "geometry", "e": "geometry(EPSG:3857)", "k": "geography"}
SHAPES = {1: point(1, 2), 2: None, 3: line((3, 4), (5, 6)), 4: polygon([(0, 0), (9, 0), (0, 9), (0, 0)])}


def shared(catalog):
    properties = {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table("d.t", pa.schema([("id", pa.int64())]), format_version=3, properties=properties)
    update = table.update_schema()
    for name, type_ in TYPES.items():
        update.add_column(name, type_)
    update.commit()
    return table


def ours(table, **options):
    return sorted(table.refresh().scan(**options).to_arrow().to_pylist(), key=lambda row: row["id"])


def theirs(session):
    session.conf.set("spark.sql.geospatial.enabled", "true")
    columns = ", ".join(f"st_asbinary({name}) AS {name}" for name in TYPES)
    rows = session.sql(f"SELECT id, {columns} FROM skerry.d.t ORDER BY id").collect()
    return [
        {name: bytes(value) if isinstance(value, bytearray) else value for name, value in row.asDict().items()}
        for row in rows
    ]


def row(number, shape):
    return {"id": number, "g": shape, "e": shape, "k": shape}


def test_both_read_what_the_other_writes(iceberg_spark, tmp_path):
    warehouse = tmp_path / "warehouse"
    catalog = skerry.connect(warehouse)
    table = shared(catalog)
    expected = [row(*one) for one in SHAPES.items()]
    table.append(pa.Table.from_pylist(expected))
    session = iceberg_spark(warehouse)
    types = {found["col_name"]: found["data_type"] for found in session.sql("DESCRIBE skerry.d.t").collect()}
    assert types == {"id": "bigint", "g": "geometry(4326)", "e": "geometry(3857)", "k": "geography(4326)"}
    assert theirs(session) == expected == ours(table)
    new = point(7, 8)
    shape = f"st_geomfromwkb(X'{new.hex()}')"
    session.sql(
        f"INSERT INTO skerry.d.t SELECT 10, st_setsrid({shape}, 4326), st_setsrid({shape}, 3857), "
        f"st_geogfromwkb(X'{new.hex()}')"
    )
    expected.append(row(10, new))
    assert theirs(session) == expected == ours(table)
    footers = [pq.ParquetFile(path).schema for path in warehouse.rglob("data/**/*.parquet")]
    annotations = [
        [str(footer.column(i).logical_type).replace("OGC:CRS84", "") for i in (1, 2, 3)] for footer in footers
    ]
    assert annotations == [["Geometry(crs=)", "Geometry(crs=EPSG:3857)", "Geography(crs=, algorithm=spherical)"]] * 2
    table.refresh().delete("ST_Intersects_Extent(g, 'POINT (1 2)'::GEOMETRY)")  # and the polygon's box
    session.sql("DELETE FROM skerry.d.t WHERE id = 2")
    expected = [row(3, SHAPES[3]), row(10, new)]
    assert theirs(session) == expected == ours(table)
    assert ours(table, where="ST_Intersects_Extent(e, ST_MakeEnvelope(7, 8, 7, 8))") == [row(10, new)]
    table.refresh().compact()
    assert theirs(session) == expected == ours(table)


def test_frames_have_shapes_as_bytes(iceberg_spark, tmp_path):
    warehouse = tmp_path / "warehouse"
    catalog = skerry.connect(warehouse)
    table = shared(catalog)
    table.append(pa.Table.from_pylist([row(*one) for one in SHAPES.items()]))
    session = iceberg_spark(warehouse)
    frame = skerry.spark.read(session, table, columns=["id", "g"])
    assert dict(frame.dtypes) == {"id": "bigint", "g": "binary"}
    assert {found["id"]: found["g"] and bytes(found["g"]) for found in frame.collect()} == SHAPES
    where = "ST_Intersects_Extent(g, ST_MakeEnvelope(5, 5, 5.5, 5.5))"
    found = skerry.spark.read(session, table, columns=["id"], where=where).collect()
    assert sorted(one["id"] for one in found) == [3, 4]
    incoming = session.sql(f"SELECT 20L AS id, X'{point(9, 9).hex()}' AS g")
    skerry.spark.ingest(session, incoming, table)
    assert ours(table, columns=["id", "g"], where="id = 20") == [{"id": 20, "g": point(9, 9)}]
    (path,) = [path for path in warehouse.rglob("data/**/*.parquet") if pq.read_metadata(path).num_rows == 1]
    assert str(pq.ParquetFile(path).schema.column(1).logical_type) == "Geometry(crs=)"
    with pytest.raises(SchemaError, match="a shape is not well-known binary"):
        skerry.spark.ingest(session, session.sql("SELECT 21L AS id, X'00' AS g"), table.refresh())


def test_bounds_are_those_of_java(spark, tmp_path):
    """Java measures the shapes that we do, and reads the points that we write."""
    java = JavaIceberg(spark)
    random = Random(9)
    checked = 0
    for number in range(60):
        shapes = [random_shape(random) for _ in range(3)]
        if any(bits in shape for shape in shapes for bits in (b"\xf8\x7f", b"\x7f\xf8")):
            continue  # where a point has NaN only for x, Java keeps y
        builder = java.class_named("org.apache.iceberg.GeometryBoundsBuilder").getDeclaredConstructors()[0]
        builder.setAccessible(True)
        target = builder.newInstance(java.gateway.new_array(java.jvm.java.lang.Object, 0))
        for shape in shapes:
            value = java.jvm.java.nio.ByteBuffer.wrap(shape)
            java.invoke("org.apache.iceberg.GeometryBoundsBuilder", "addValue", target, value)
        box = java.invoke("org.apache.iceberg.GeometryBoundsBuilder", "build", target)
        boxes = [found for found in map(box_of, shapes) if not found.is_empty]
        if box is None:
            continue  # it gives none where a shape is not what it expects, such as a ring of too few points
        checked += 1
        expected = [
            (min(one.x_min for one in boxes), min(one.y_min for one in boxes)),
            (max(one.x_max for one in boxes), max(one.y_max for one in boxes)),
        ]
        assert [(corner.x(), corner.y()) for corner in (box.min(), box.max())] == expected, number
    assert checked > 5
    catalog = skerry.connect(tmp_path / "lake")
    table = shared(catalog)
    table.append(pa.Table.from_pylist([row(*one) for one in SHAPES.items()]))
    (file,) = table.files()
    bound = java.iceberg.geospatial.GeospatialBound
    for bounds, expected in ((file.lower_bounds, (0, 0)), (file.upper_bounds, (9, 9))):
        for number in (2, 3):
            found = bound.fromByteArray(bounds[number])
            assert (found.x(), found.y(), found.hasZ(), found.hasM()) == (*expected, False, False)
            assert bytes(found.toByteBuffer().array()) == bounds[number]
        on_globe = bound.fromByteArray(bounds[4])
        assert (on_globe.x(), on_globe.y()) == pytest.approx(expected, abs=0.1)
    with_z = bound.createXYM(1.0, 2.0, 3.0).toByteBuffer().array()
    assert struct.unpack("<4d", bytes(with_z))[:2] == (1, 2)
    assert math.isnan(struct.unpack("<4d", bytes(with_z))[2])


def test_boxes_on_a_globe_meet_as_in_java(spark):
    """Java does not know that the antimeridian has two names, so that no box ends there."""
    java = JavaIceberg(spark)
    random = Random(12)
    geography = java.iceberg.types.Types.GeographyType.crs84()
    evaluator = java.iceberg.geospatial.GeospatialPredicateEvaluators.create(geography)
    point_of = java.iceberg.geospatial.GeospatialBound.createXY
    answers = set()
    for _ in range(300):
        boxes = []
        for _ in range(2):
            south, north = sorted(random.randint(-8, 8) * 10.0 for _ in range(2))
            boxes.append(Box(random.randint(-17, 17) * 10.0, south, random.randint(-17, 17) * 10.0, north))
        theirs = evaluator.intersects(
            *(
                java.iceberg.geospatial.BoundingBox(point_of(box.x_min, box.y_min), point_of(box.x_max, box.y_max))
                for box in boxes
            )
        )
        edges = np.array([[boxes[1].x_min, boxes[1].y_min, boxes[1].x_max, boxes[1].y_max]]).T
        assert bool(GlobeBoxes(edges).meet(boxes[0])[0]) is theirs, boxes
        answers.add(theirs)
    assert answers == {True, False}


def test_java_reads_the_schemas(spark, tmp_path):
    java = JavaIceberg(spark)
    table = shared(skerry.connect(tmp_path / "lake"))
    parsed = java.iceberg.TableMetadataParser.read(java.io, table.metadata_location).schema()
    assert [parse_type(str(parsed.findType(name))) for name in TYPES] == list(map(parse_type, TYPES.values()))
    assert parsed.sameSchema(java.iceberg.SchemaParser.fromJson(java.iceberg.SchemaParser.toJson(parsed)))
