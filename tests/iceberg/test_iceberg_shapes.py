"""Columns of type geometry and geography: every operation, bounds and pruning, footers, and what is refused."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
from random import Random

import duckdb
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skerry
from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.iceberg.metadata.arrow_schema import to_iceberg_schema
from skerry.iceberg.writing.shape_bounds import points_of
from skerry.wkb import Shapes, WkbType, marked, shapes_of

ANYWHERE = {"skerry.read.files-outside-location": "true"}
GEOMETRY = marked(pa.field("g", pa.binary()), Shapes("OGC:CRS84"))
SCHEMA = pa.schema([("id", pa.int64()), GEOMETRY])


def point(x, y):
    return struct.pack("<BIdd", 1, 1, x, y)


def line(*points):
    return struct.pack("<BII", 1, 2, len(points)) + b"".join(struct.pack("<dd", *at) for at in points)


def rows(values):
    return pa.table([list(values), list(values.values())], schema=SCHEMA)


def content(table, **options):
    found = table.scan(**options).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["g"].to_pylist(), strict=True))


def within(*edges):
    return f"ST_Intersects_Extent(g, ST_MakeEnvelope({', '.join(map(str, edges))}))"


def only_manifest(folder):
    """The one manifest of a table with one commit, and its one entry."""
    (path,) = folder.rglob("*-m0.avro")
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        (entry,) = reader
        return path, reader, entry


def bound(folder, name, number):
    _, _, entry = only_manifest(folder)
    return {pair["key"]: pair["value"] for pair in entry["data_file"][name] or []}.get(number)


@pytest.fixture
def catalog(tmp_path):
    return skerry.connect(tmp_path / "lake")


# ---- operations ----


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_every_operation_keeps_shapes(catalog, mode):
    modes = {f"write.{change}.mode": mode for change in ("delete", "update", "merge")}
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=modes)
    expected = {i: point(i, -i) if i % 5 else None for i in range(40)}
    table.append(rows(expected))
    more = {40: line((0, 0), (50, 50)), 41: line(), 42: point(math.nan, math.nan)}
    table.append(rows(more))
    expected |= more
    assert content(table) == expected
    table.delete(within(6.5, -100, 8, 100))
    for gone in (7, 8, 40):
        del expected[gone]
    assert content(table) == expected
    changed = {3: point(99, 99), 41: None, 60: line((1, 1), (2, 2))}
    table.upsert(rows(changed), on="id")
    expected |= changed
    table.overwrite(rows({5: point(0, 0)}), where="id = 5")
    expected[5] = point(0, 0)
    assert content(table) == expected
    table.compact()
    assert content(table) == expected
    assert content(table, where=within(98, 98, 100, 100)) == {3: point(99, 99)}
    before = table.current_snapshot().snapshot_id
    table.merge(rows({3: point(1, 1), 70: point(7, 7)}), on="id", when_matched="update", when_not_matched="insert")
    expected |= {3: point(1, 1), 70: point(7, 7)}
    assert content(table) == expected
    assert shapes_of(table.changes(before).to_arrow().schema.field("g")) == Shapes("OGC:CRS84")
    statistics = table.statistics()["g"]
    assert statistics.freshness.is_fresh
    assert statistics.ndv == len(set(expected.values()) - {None})
    assert (statistics.min, statistics.max) == (None, None)


def test_shapes_inside_of_other_columns(catalog):
    schema = pa.schema(
        [
            ("s", pa.struct([("x", pa.int32()), GEOMETRY])),
            ("l", pa.list_(GEOMETRY.with_name("element"))),
            ("m", pa.map_(pa.string(), GEOMETRY.with_name("value"))),
        ]
    )
    table = catalog.create_table("a.t", schema, format_version=3)
    data = [
        {"s": {"x": 1, "g": point(1, 2)}, "l": [point(3, 4), None], "m": [("a", point(5, 6))]},
        {"s": {"x": 2, "g": None}, "l": [], "m": None},
        {"s": None, "l": None, "m": []},
    ]
    table.append(pa.Table.from_pylist(data, schema=schema))
    found = table.scan().to_arrow()
    assert found.to_pylist() == data
    inner = (found.schema.field("s").type.field("g"), found.schema.field("l").type.value_field)
    assert [shapes_of(field) for field in (*inner, found.schema.field("m").type.item_field)] == [
        Shapes("OGC:CRS84")
    ] * 3
    assert table.scan(where="ST_Intersects_Extent(s.g, ST_MakeEnvelope(0, 0, 1, 2))").count() == 1
    with pytest.raises(SchemaError, match="is not well-known binary"):
        table.append(pa.Table.from_pylist([{"l": [b"x"]}], schema=schema.remove(2).remove(0)))


def test_columns_of_shapes_are_added_renamed_united_and_dropped(catalog):
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), format_version=3)
    table.append(pa.table({"id": [1]}))
    table.update_schema().add_column("g", "geometry").commit()
    table.append(rows({2: point(1, 2)}))
    assert content(table) == {1: None, 2: point(1, 2)}
    assert content(table, where="g IS NULL") == {1: None}
    table.update_schema().rename_column("g", "h").commit()
    assert table.scan(where="ST_Intersects_Extent(h, ST_GeomFromText('POINT (1 2)'))").count() == 1
    globe = marked(pa.field("k", pa.binary()), Shapes("OGC:CRS84", "karney"))
    table.update_schema().union_by_name(pa.schema([globe, GEOMETRY.with_name("h")])).commit()
    assert str(table.handle.state.metadata.schema().find_field("k").field_type) == "geography(OGC:CRS84, karney)"
    with pytest.raises(SchemaError, match="cannot change from geometry to binary"):
        table.update_schema().update_column("h", "binary").commit()
    table.update_schema().delete_column("h").commit()
    assert table.scan().to_arrow().column_names == ["id", "k"]


# ---- types ----

TYPES = {
    "geometry": Shapes("OGC:CRS84"),
    "geometry(EPSG:4326)": Shapes("EPSG:4326"),
    "geometry(EPSG:3857)": Shapes("EPSG:3857"),
    "geometry(srid:0)": Shapes(),
    "geometry(srid:5070)": Shapes("srid:5070"),
    "geometry(projjson:crs.mine)": Shapes("projjson:crs.mine"),
    "geography": Shapes("OGC:CRS84", "spherical"),
    "geography(EPSG:4326, andoyer)": Shapes("EPSG:4326", "andoyer"),
    "geography(OGC:CRS84, karney)": Shapes("OGC:CRS84", "karney"),
}


@pytest.mark.parametrize("text", TYPES)
def test_types_are_geoarrow_marks_and_annotations_of_files(catalog, tmp_path, text):
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), format_version=3)
    table.update_schema().add_column("g", text).commit()
    field = table.schema.field("g")
    assert (field.type, shapes_of(field)) == (pa.binary(), TYPES[text])
    mapped = to_iceberg_schema(table.schema, format_version=3).find_field("g").field_type
    assert str(mapped) == text
    table.append(pa.table({"id": [1, 2], "g": [point(3, 4), None]}))
    (path,) = tmp_path.rglob("*.parquet")
    annotation = str(pq.ParquetFile(path).schema.column(1).logical_type)
    # the default of Parquet is left out
    name, _, rest = text.replace("OGC:CRS84", "").rstrip(")").partition("(")
    crs, _, algorithm = rest.partition(", ")
    expected = (
        f"Geometry(crs={crs})" if name == "geometry" else f"Geography(crs={crs}, algorithm={algorithm or 'spherical'})"
    )
    assert annotation == expected
    found = duckdb.sql(f"SELECT g FROM '{path}' ORDER BY id")
    assert str(found.types[0]).lower().startswith("geometry")
    assert [shape and bytes(shape) for (shape,) in found.fetchall()] == [point(3, 4), None]


def test_what_others_give_is_taken(catalog):
    """Marks of GeoPandas and DuckDB, an extension type, plain bytes, other layouts of bytes."""
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    plain = pa.table({"id": [1], "g": pa.array([point(1, 1)], pa.large_binary())})
    table.append(plain)
    extension = pa.ExtensionArray.from_storage(WkbType(Shapes("EPSG:4326")), pa.array([point(2, 2)]))
    table.append(pa.table({"id": [2], "g": extension}))
    table.append(duckdb.sql("SELECT 3::BIGINT AS id, 'POINT (3 3)'::GEOMETRY AS g").to_arrow_table())
    table.append(pa.table({"id": [4], "g": pa.array([point(4, 4)]).dictionary_encode()}))
    assert content(table) == {i: point(i, i) for i in (1, 2, 3, 4)}
    for shapes, problem in (
        (Shapes("EPSG:3857"), "is in the reference system EPSG:3857 in the data, but in OGC:CRS84 in the table"),
        (Shapes("OGC:CRS84", "karney"), "has karney edges in the data, but planar ones in the table"),
    ):
        with pytest.raises(SchemaError, match=f"column 'g' {problem}"):
            table.append(pa.table([[5], [point(5, 5)]], schema=pa.schema([SCHEMA.field(0), marked(GEOMETRY, shapes)])))
    with pytest.raises(SchemaError, match=r"column 'g', row 1: .*a shape is not well-known binary: it is cut short"):
        table.append(rows({5: point(5, 5), 6: point(6, 6)[:-1]}))
    made = catalog.create_table("a.made", pa.schema([pa.field("g", WkbType(Shapes()))]), format_version=3)
    assert str(made.handle.state.metadata.schema().find_field("g").field_type) == "geometry(srid:0)"


def test_duckdb_takes_and_answers_like_us(catalog):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    random = Random(3)
    shapes = {
        i: random.choice(
            (None, line(), point(random.random(), random.random()), line((random.random(), 0), (0.5, 0.5)))
        )
        for i in range(200)
    }
    table.append(rows(shapes))
    by_bytes = table.scan(where=f"ST_Intersects_Extent(g, ST_GeomFromWKB(X'{line((0.1, 0.2), (0.4, 0.7)).hex()}'))")
    condition = "ST_Intersects_Extent(g, 'LINESTRING (0.1 0.2, 0.4 0.7)'::GEOMETRY)"
    scan = table.scan(["id"], where=condition)
    assert scan.predicate == by_bytes.predicate
    mine = scan.to_arrow()["id"].to_pylist()
    assert 0 < len(mine) < 150
    assert catalog.sql(f"SELECT id FROM a.t WHERE {condition} ORDER BY id")["id"].to_pylist() == mine
    everything = duckdb.arrow(table.scan().to_arrow())
    assert str(everything.types[1]).upper().startswith("GEOMETRY")
    assert everything.query("arrow", "SELECT count(*) FROM arrow WHERE ST_AsText(g) LIKE 'POINT%'").fetchall()[0][
        0
    ] == sum(shape is not None and len(shape) == 21 for shape in shapes.values())


def test_a_registered_extension_type_of_others_changes_nothing(catalog, tmp_path):
    """PyArrow then reads annotated columns as that type."""
    catalog.create_table("a.t", SCHEMA, format_version=3).append(rows({1: point(1, 2), 2: None}))
    program = f"""
import pyarrow as pa, skerry
class Wkb(pa.ExtensionType):
    def __init__(self, text=""):
        self.text = text
        super().__init__(pa.binary(), "geoarrow.wkb")
    def __arrow_ext_serialize__(self):
        return self.text.encode()
    @classmethod
    def __arrow_ext_deserialize__(cls, storage, text):
        return cls(text.decode())
pa.register_extension_type(Wkb())
table = skerry.connect({str(tmp_path / "lake")!r}).load_table("a.t")
assert table.scan().to_arrow().schema.field("g").type == pa.binary()
assert table.scan(where="ST_Intersects_Extent(g, ST_MakeEnvelope(0, 0, 3, 3))").count() == 1
table.append(table.scan().to_arrow())
given = pa.RecordBatchReader.from_stream(table.scan().to_arrow()).read_all()
assert given.schema.field("g").type.extension_name == "geoarrow.wkb"
table.append(given)
table.upsert(given.slice(0, 1), on=["id"])
table.compact()
assert table.scan().count() == 8
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


# ---- bounds and pruning ----


def test_bounds_are_points_as_in_the_specification(catalog, tmp_path):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    table.append(rows({1: line((3, -1), (-2, 7)), 2: None, 3: point(math.nan, 5), 4: line()}))
    folder = tmp_path / "lake"
    assert bound(folder, "lower_bounds", 2) == struct.pack("<dd", -2, -1)
    assert bound(folder, "upper_bounds", 2) == struct.pack("<dd", 3, 7)
    assert bound(folder, "null_value_counts", 2) == 1
    assert bound(folder, "value_counts", 2) == 4


GLOBE_BOUNDS = {
    "across the antimeridian": ([point(170, 1), point(-170, 2)], (170, 1, -170, 2)),
    "along a meridian": ([line((5, 1), (5, 20))], (5, 1, 5, 20)),
    "beyond 180": ([point(181, 0)], None),
    "beyond 90": ([point(0, 91)], None),
    "null": ([None], None),
    "empty": ([line()], None),
    "around a pole": ([line((0, 80), (120, 80), (-120, 80), (0, 80))], (-180, 80, 180, 85.01)),
}


@pytest.mark.parametrize("name", GLOBE_BOUNDS)
def test_bounds_of_a_geography_are_a_box_on_the_globe(catalog, tmp_path, name):
    shapes, box = GLOBE_BOUNDS[name]
    table = geographies(catalog)
    table.append(pa.table({"id": range(len(shapes)), "g": pa.array(shapes, pa.binary())}))
    found = [bound(tmp_path / "lake", f"{side}_bounds", 2) for side in ("lower", "upper")]
    if box is None:
        assert found == [None, None]
    else:
        assert struct.unpack("<4d", b"".join(found)) == pytest.approx(box, abs=0.1)
    assert table.scan(where="g IS NOT NULL").count() == sum(shape is not None for shape in shapes)


def geographies(catalog, type_="geography"):
    table = catalog.create_table("a.t", pa.schema([("id", pa.int64())]), format_version=3)
    table.update_schema().add_column("g", type_).commit()
    return table


@pytest.mark.parametrize("type_", ["geography", "geography(OGC:CRS84, karney)"])
def test_geographies_are_found_and_files_pruned(catalog, type_):
    table = geographies(catalog, type_)
    files = [
        {1: line((-80, 50), (10, 50)), 2: point(-90, 51)},  # over Greenland
        {3: line((170, -10), (-170, -12)), 4: None},
        {5: point(179, 3), 6: point(-180, 4)},
        {7: line((0, 80), (180, 80))},
        {8: point(200, 0)},
    ]
    for rows_ in files:
        table.append(pa.table({"id": list(rows_), "g": pa.array(list(rows_.values()), pa.binary())}))
    wild = {7, 8}  # over a pole, and outside of the globe: they may be anywhere
    for box, expected in (
        ((-40, 55, -30, 60), {1}),
        ((-40, 20, -30, 30), {1} if "karney" in type_ else set()),
        ((175, -90, -175, 0), {3}),
        ((-175, -20, 175, -5), {3}),
        ((178, 0, 180, 10), {3, 5, 6} if "karney" in type_ else {5, 6}),
        ((-180, 3.5, -179, 4), {6}),
        ((-180, -90, 180, 90), {1, 2, 3, 5, 6}),
        ((20, 0, 30, 1), set()),
    ):
        found = content(table, where=within(*box)).keys() - wild
        assert found == expected, box
        assert content(table, where=f"NOT {within(*box)}").keys() == {1, 2, 3, 5, 6} - expected
    assert content(table, where="ST_Intersects_Extent(g, 'POINT (-90 51)'::GEOMETRY)").keys() - wild == {2}
    assert content(table, where="ST_Intersects_Extent(g, ST_GeomFromText('POINT EMPTY'))") == {}
    plan = table.scan(where=within(20, -10, 30, 1)).explain()
    assert [step.kept for step in plan.plan.steps if step.name == "files by bounds"] == [2]
    for where, kind, message in (
        (within(0, 0, 181, 1), SchemaError, r"takes longitudes from -180 to 180 .*found the box from \(0, 0\)"),
        (within(0, 2, 1, 1), SchemaError, r"the box from \(0, 2\) to \(1, 1\) is inside out"),
        ("ST_Intersects_Extent(g, 'LINESTRING (1 2, 3 4)'::GEOMETRY)", UnsupportedError, "whose edges are curves"),
    ):
        with pytest.raises(kind, match=message):
            table.scan(where=where)
    with pytest.raises(UnsupportedError, match=r"column 'g' of a[.]t is a geography, which DuckDB does not have"):
        catalog.sql("SELECT g FROM a.t")
    assert catalog.sql("SELECT count(id) AS n FROM a.t")["n"].to_pylist() == [8]
    table.delete(within(175, -90, -175, 0))
    assert content(table).keys() == {1, 2, 4, 5, 6} | ({7, 8} - wild)


def test_conditions_find_the_same_rows_in_every_layout(catalog):
    """Many files and row groups, against a slow test of every row."""
    random = Random(11)
    table = catalog.create_table(
        "a.t", SCHEMA, format_version=3, properties={"write.parquet.row-group-size-bytes": "2000"}
    )
    shapes = {}
    for part in range(8):
        x, y = 10 * (part % 4), 10 * (part // 4)
        some = {}
        for i in range(60):
            at = (x + 10 * random.random(), y + 10 * random.random())
            other = (at[0] + random.random(), at[1] - random.random())
            some[1000 * part + i] = random.choice((point(*at), line(at, other), line(at, other), None))
        shapes |= some
        table.append(rows(some))

    def box(shape):
        start = 9 if shape[1] == 2 else 5
        numbers = struct.unpack_from(f"<{(len(shape) - start) // 8}d", shape, start)
        return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])

    for _ in range(40):
        x, y = 45 * random.random() - 2, 25 * random.random() - 2
        edges = (x, y, x + 4 * random.random(), y + 4 * random.random())
        expected = {
            key
            for key, shape in shapes.items()
            if shape is not None
            and box(shape)[0] <= edges[2]
            and box(shape)[2] >= edges[0]
            and box(shape)[1] <= edges[3]
            and box(shape)[3] >= edges[1]
        }
        assert content(table, where=within(*edges)).keys() == expected
        present = {key for key, shape in shapes.items() if shape is not None}
        assert content(table, where=f"NOT {within(*edges)}").keys() == present - expected
        both = table.scan(["id"], where=f"{within(*edges)} AND id < 3000 OR g IS NULL").to_arrow()["id"].to_pylist()
        assert set(both) == {key for key in expected if key < 3000} | shapes.keys() - present
    plan = table.scan(where=within(12, 2, 13, 3)).explain()
    assert [step.kept for step in plan.plan.steps if step.name == "files by bounds"] == [1]
    assert "bounds without ST_Intersects_Extent" in str(plan)
    assert table.scan(where="ST_Intersects_Extent(g, ST_GeomFromText('POINT EMPTY'))").file_count == 0


def test_row_groups_are_pruned_by_their_statistics(catalog, tmp_path):
    data = rows({i: point(i, i) for i in range(100)})
    stored = pa.schema([SCHEMA.field(0), pa.field("g", WkbType(Shapes("OGC:CRS84")))])
    pq.write_table(data.cast(stored), tmp_path / "f.parquet", row_group_size=10)
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=ANYWHERE)
    table.add_files([str(tmp_path / "f.parquet")])
    assert bound(tmp_path / "lake", "lower_bounds", 2) == struct.pack("<dd", 0, 0)
    assert bound(tmp_path / "lake", "upper_bounds", 2) == struct.pack("<dd", 99, 99)
    scan = table.scan(where=within(42, 0, 43, 100))
    assert "row groups by statistics       1 of      10" in str(scan.explain())
    assert scan.to_arrow()["id"].to_pylist() == [42, 43]
    assert table.scan(where=within(200, 0, 300, 100)).file_count == 0


def test_files_without_annotation_are_read_and_have_no_bounds(catalog, tmp_path):
    pq.write_table(pa.table({"id": [1], "g": [point(1, 2)]}), tmp_path / "plain.parquet")
    duckdb.sql(f"COPY (SELECT 2::BIGINT AS id, 'POINT (2 2)'::GEOMETRY AS g) TO '{tmp_path}/duck.parquet'")
    table = catalog.create_table("a.t", SCHEMA, format_version=3, properties=ANYWHERE)
    table.add_files([str(tmp_path / "plain.parquet")])
    assert bound(tmp_path / "lake", "lower_bounds", 2) is None
    table.add_files([str(tmp_path / "duck.parquet")])
    assert content(table, where=within(0, 0, 9, 9)) == {1: point(1, 2), 2: point(2, 2)}
    assert content(table, where=within(2, 2, 9, 9)) == {2: point(2, 2)}
    pq.write_table(pa.table({"id": [3], "g": [b"\x01\x01"]}), tmp_path / "bad.parquet")
    table.add_files([str(tmp_path / "bad.parquet")])
    assert content(table)[3] == b"\x01\x01"
    with pytest.raises(FormatError, match="a shape is not well-known binary"):
        content(table, where=within(2, 2, 9, 9))


POINTS = {
    "true": (struct.pack("<dd", 0, 0), struct.pack("<dd", 5, 5)),
    "with z": (struct.pack("<ddd", 0, 0, 7), struct.pack("<ddd", 5, 5, 9)),
    "with m": (struct.pack("<dddd", 0, 0, math.nan, 7), struct.pack("<dddd", 5, 5, math.nan, 7)),
    "wrong order": (struct.pack("<dd", 5, 5), struct.pack("<dd", 0, 0)),
    "nan": (struct.pack("<dd", math.nan, 0), struct.pack("<dd", 5, math.nan)),
    "of bytes": (point(0, 0)[:15], point(5, 5)[:17]),
    "empty": (b"", b""),
    "one": (struct.pack("<dd", 0, 0), None),
    "none": (None, None),
}


@pytest.mark.parametrize("name", POINTS)
def test_bounds_of_others_are_checked(catalog, tmp_path, name):
    catalog.create_table("a.t", SCHEMA, format_version=3).append(rows({1: point(0, 0), 2: point(5, 5), 3: None}))
    path, reader, entry = only_manifest(tmp_path / "lake")
    for key, value in zip(("lower_bounds", "upper_bounds"), POINTS[name], strict=True):
        kept = [pair for pair in entry["data_file"][key] if pair["key"] != 2]
        entry["data_file"][key] = kept + ([] if value is None else [{"key": 2, "value": value}])
    with path.open("wb") as file:
        fastavro.writer(file, reader.writer_schema, [entry], metadata=_text_metadata(reader))
    folder = next((tmp_path / "lake").rglob("snap-*.avro"))
    with folder.open("rb") as file:
        lists = fastavro.reader(file)
        records = [{**record, "manifest_length": path.stat().st_size} for record in lists]
        written, metadata = lists.writer_schema, _text_metadata(lists)
    with folder.open("wb") as file:
        fastavro.writer(file, written, records, metadata=metadata)
    table = skerry.connect(tmp_path / "lake").load_table("a.t")
    assert content(table, where=within(5, 5, 6, 6)) == {2: point(5, 5)}
    assert content(table, where=within(0, 0, 5, 5)) == {1: point(0, 0), 2: point(5, 5)}
    assert content(table, where=f"NOT {within(5, 5, 6, 6)}") == {1: point(0, 0)}
    is_pruned = len(table.scan(where=within(7, 7, 8, 8)).plan()) == 0
    assert is_pruned == (name in ("true", "with z", "with m"))
    assert table.statistics()["g"].min is None


def _text_metadata(reader):
    return {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}


def test_points_of_bounds():
    given = [struct.pack("<dd", 1, 2), None, b"short", struct.pack("<dddd", 3, 4, 5, 6)]
    assert points_of(pa.array(given, pa.binary())).to_pylist() == [[1, 2], None, None, [3, 4]]
    assert points_of(pa.array(given, pa.binary())[1:]).to_pylist() == [None, None, [3, 4]]
    assert len(points_of(pa.array([], pa.binary()))) == 0
    assert np.isnan(points_of(pa.array([struct.pack("<dd", math.nan, 1)])).values[0].as_py())


# ---- what is refused ----


CONDITIONS = [
    ("g = X'00'", SchemaError, "of type geometry and can only be tested with IS"),
    ("g IN (X'00')", SchemaError, "of type geometry"),
    ("g", SchemaError, "is of type geometry, not a condition"),
    ("isnan(g)", SchemaError, "of type geometry is never NaN"),
    ("ST_Intersects_Extent(id, ST_MakeEnvelope(0, 0, 1, 1))", SchemaError, "takes a column of type geometry"),
    ("ST_Intersects_Extent(g, g)", SchemaError, "takes a column of type geometry and a shape"),
    ("ST_Intersects_Extent(g, 'POINT (1 2)')", SchemaError, "takes a column of type geometry and a shape"),
    ("ST_Intersects_Extent(g)", FormatError, "wrong number of arguments"),
    ("ST_MakeEnvelope(0, 0, 1, 1)", UnsupportedError, "a shape without ST_Intersects_Extent"),
    ("g = ST_MakeEnvelope(0, 0, 1, 1)", UnsupportedError, "comparing shapes"),
    ("ST_MakeEnvelope(0, 0, 1, 1) IS NULL", UnsupportedError, "a test of a constant shape"),
    (within(0, 0, 1), FormatError, "wrong arguments for ST_MakeEnvelope"),
    (within(2, 0, 1, 1), SchemaError, r"the box from \(2, 0\) to \(1, 1\) is inside out"),
    (within("'a'", 0, 1, 1), SchemaError, "expected four numbers"),
    (within("id", 0, 1, 1), UnsupportedError, r"ST_MakeEnvelope\(\) of a column"),
    ("ST_Intersects_Extent(g, ST_GeomFromText('POINT 1'))", FormatError, "is not well-known text"),
    ("ST_Intersects_Extent(g, ST_GeomFromText(5))", SchemaError, "expected well-known text"),
    ("ST_Intersects_Extent(g, ST_GeomFromWKB(X'00'))", FormatError, "is not well-known binary"),
    ("ST_Intersects_Extent(g, ST_GeomFromWKB('00'))", SchemaError, "expected well-known binary as X"),
    ("ST_Intersects(g, ST_MakeEnvelope(0, 0, 1, 1))", UnsupportedError, r"function ST_Intersects\(\) is not supported"),
]


@pytest.mark.parametrize(("condition", "kind", "message"), CONDITIONS, ids=[one[0] for one in CONDITIONS])
def test_other_conditions_are_refused(catalog, condition, kind, message):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    with pytest.raises(kind, match=message):
        table.scan(where=condition)


def test_a_condition_is_printed_as_it_is_read(catalog):
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    scan = table.scan(where="NOT ST_Intersects_Extent(ST_GeomFromText('LINESTRING (1 2, 3 4)'), g)")
    assert str(scan.predicate) == 'NOT ST_Intersects_Extent("g", ST_MakeEnvelope(1.0, 2.0, 3.0, 4.0))'
    assert table.scan(where=str(scan.predicate)).predicate == scan.predicate


def test_what_shapes_cannot_do_is_refused_by_name(catalog):
    with pytest.raises(SchemaError, match=r"column 'g': shapes cannot be stored.*needs format version 3"):
        catalog.create_table("a.old", SCHEMA, format_version=2)
    for options in ({"partition_by": ["g"]}, {"partition_by": ["bucket(4, g)"]}, {"sort_by": ["g"]}):
        with pytest.raises(SchemaError, match="column 'g' of type geometry cannot partition or sort a table"):
            catalog.create_table("a.t", SCHEMA, format_version=3, **options)
    with pytest.raises(SchemaError, match="column 'g' of type geometry cannot be part of a primary key"):
        catalog.create_table("a.t", SCHEMA, format_version=3, primary_key=["g"])
    with pytest.raises(UnsupportedError, match="column 'g': an Amudai shard cannot hold shapes"):
        catalog.create_table("a.t", SCHEMA, format_version=3, file_format="amudai")
    with pytest.raises(SchemaError, match="column 'g': Paimon has no type for shapes"):
        catalog.create_table("a.t", SCHEMA, format="paimon")
    table = catalog.create_table("a.t", SCHEMA, format_version=3)
    table.append(rows({1: point(1, 2)}))
    with pytest.raises(SchemaError, match="column 'g' of shapes cannot identify rows"):
        table.upsert(rows({1: point(1, 2)}), on="g")
    with pytest.raises(SchemaError, match="cannot identify rows: its type is geometry"):
        table.update_schema().set_identifier_fields("g").commit()
    with pytest.raises(SchemaError, match="a column of type geometry cannot have a default"):
        table.update_schema().add_column("h", "geometry", default_value=point(1, 2)).commit()
    with pytest.raises(UnsupportedError, match="column 'g' of type geometry: Paimon has no such type"):
        catalog.migrate("a.t", format="paimon")
    for kind in ("orc", "avro"):
        table.set_properties({"write.format.default": kind})
        with pytest.raises(UnsupportedError, match=r"column 'g': an .* file of skerry cannot hold shapes"):
            table.append(rows({2: point(1, 2)}))
    assert content(table) == {1: point(1, 2)}
