"""Shapes in well-known binary: boxes against a slow reader and DuckDB, bad bytes, marks of Arrow fields."""

from __future__ import annotations

import json
import math
import struct
from random import Random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from wkb_samples import (
    COLLECTION,
    LINE_STRING,
    MULTI_POINT,
    POINT,
    POLYGON,
    doubles,
    head,
    line,
    many,
    point,
    polygon,
    random_shape,
    slow_box,
)

from skerry.errors import FormatError, SchemaError
from skerry.wkb import Box, Shapes, WkbType, box_of, box_of_text, boxes_of, marked, shapes_of, shapes_type

TYPES = [pa.binary(), pa.large_binary(), pa.binary_view()]


def found(boxes):
    return [None if math.isnan(box[0]) else tuple(box) for box in boxes.edges.T.tolist()]


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_boxes_are_those_of_a_slow_reader(type_):
    random = Random(5)
    shapes = [random.choice((None, random_shape(random), random_shape(random))) for _ in range(600)]
    expected = [None if shape is None else slow_box(shape) for shape in shapes]
    array = pa.array(shapes, type_)
    assert found(boxes_of(array)) == expected
    assert found(boxes_of(array[100:333])) == expected[100:333]
    known = [box for box in expected if box]
    around = boxes_of(array).around()
    lows, highs = zip(*(box[:2] for box in known), strict=True), zip(*(box[2:] for box in known), strict=True)
    assert around == Box(*map(min, lows), *map(max, highs))


def test_boxes_are_those_of_duckdb():
    random = Random(6)
    shapes = [
        shape
        for shape in (random_shape(random) for _ in range(300))
        if b"\xf8\x7f" not in shape and b"\x7f\xf8" not in shape
    ]
    box = Box(-1.0, -2.0, 2.0, 0.0)
    rows = pa.table({"g": shapes})
    theirs = duckdb.sql(
        "SELECT ST_Intersects_Extent(ST_GeomFromWKB(g), 'LINESTRING (-1 -2, 2 0)'::GEOMETRY) AS m FROM rows"
    ).to_arrow_table()["m"]
    assert len(rows) > 100
    assert boxes_of(pa.array(shapes)).meet(box).tolist() == [bool(one) for one in theirs.to_pylist()]


def test_dimensions_beyond_the_plane_are_passed_over():
    for dimensions, size in ((1, 3), (2, 3), (3, 4)):
        at = tuple(range(1, size + 1))
        assert box_of(point(*at, dimensions=dimensions)) == Box(1, 2, 1, 2)
        both = many(MULTI_POINT, point(*at, dimensions=dimensions), dimensions=dimensions)
        assert box_of(both) == Box(1, 2, 1, 2)


def test_empty_shapes_meet_nothing():
    empty = [point(math.nan, math.nan), line(), polygon(), polygon([]), many(COLLECTION), point(math.nan, 1)]
    boxes = boxes_of(pa.array(empty))
    assert not boxes.meet(Box(-math.inf, -math.inf, math.inf, math.inf)).any()
    assert boxes.around() is None
    assert boxes_of(pa.array([], pa.binary())).around() is None
    assert box_of(empty[0]).is_empty


NESTED = struct.pack("<BII", 1, COLLECTION, 1)
BAD = {
    "cut short": [
        b"",
        b"\x01",
        point(1, 2)[:-1],
        head(LINE_STRING),
        head(LINE_STRING) + struct.pack("<I", 2**32 - 1),
        head(LINE_STRING) + struct.pack("<I", 2) + doubles([(1, 2)]),
        head(POLYGON) + struct.pack("<I", 2**32 - 1),
        head(POLYGON) + struct.pack("<II", 1, 2**32 - 1) + bytes(64),
        head(COLLECTION) + struct.pack("<I", 2**32 - 1),
        many(COLLECTION, point(1, 2))[:-8],
        point(1, 2, order=">")[:-1],
    ],
    "byte order is neither": [b"\x02" + point(1, 2)[1:], many(COLLECTION, b"\xff" + point(1, 2)[1:])],
    "none of the seven": [
        head(0) + bytes(16),
        head(8) + bytes(16),
        head(POINT, dimensions=4) + bytes(40),
        struct.pack("<BII", 1, 0x20000001, 4326) + bytes(16),  # PostGIS's own form
    ],
    "member of another type": [many(MULTI_POINT, line((1, 2))), many(6, point(1, 2))],
    "different dimensions": [
        many(COLLECTION, point(1, 2, 3, dimensions=1)),
        many(MULTI_POINT, point(1, 2), dimensions=2),
    ],
    "deeper than 32": [NESTED * 33 + point(1, 2), NESTED * 100_000],
    "bytes follow": [point(1, 2) + b"\0", many(COLLECTION) + point(1, 2)],
}


@pytest.mark.parametrize(
    ("problem", "shape"), [(problem, shape) for problem, shapes in BAD.items() for shape in shapes]
)
def test_bad_bytes_are_refused(problem, shape):
    with pytest.raises(FormatError, match=problem):
        boxes_of(pa.array([point(1, 2), shape]))


def test_every_cut_and_every_changed_byte_is_read_or_refused():
    whole = many(COLLECTION, polygon([(0, 0), (1, 0), (0, 1), (0, 0)]), many(MULTI_POINT, point(5, 5, order=">")))
    for end in range(len(whole)):
        with pytest.raises(FormatError):
            box_of(whole[:end])
    random = Random(7)
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] = random.randrange(256)
        try:
            box_of(bytes(changed))
        except FormatError:
            continue
    assert box_of(NESTED * 31 + many(COLLECTION, point(1, 2))) == Box(1, 2, 1, 2)


TEXTS = {
    "POINT (1 2)": (1, 2, 1, 2),
    "point z(1 2 3)": (1, 2, 1, 2),
    "LINESTRING(0 0, -1.5 2e1)": (-1.5, 0, 0, 20),
    "POLYGON ((0 0, 4 0, 4 3, 0 0), (1 1, 2 1, 1 2, 1 1))": (0, 0, 4, 3),
    "MULTIPOINT (1 2, 3 4)": (1, 2, 3, 4),
    "MULTIPOINT ((1 2), (3 4))": (1, 2, 3, 4),
    "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))": (0, 0, 6, 6),
    "GEOMETRYCOLLECTION (POINT (9 9), LINESTRING (1 1, 2 2), POINT EMPTY)": (1, 1, 9, 9),
    "POLYGON EMPTY": None,
}


@pytest.mark.parametrize("text", TEXTS)
def test_boxes_of_texts(text):
    mine = box_of_text(text)
    assert (None if mine.is_empty else (mine.x_min, mine.y_min, mine.x_max, mine.y_max)) == TEXTS[text]
    (wkb,) = duckdb.sql(f"SELECT ST_AsWKB('{text}'::GEOMETRY)").fetchall()[0]
    theirs = box_of(bytes(wkb))
    assert theirs == mine or (theirs.is_empty and mine.is_empty)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "POINT",
        "POINT ()",
        "POINT (1)",
        "POINT (1 2 3 4 5)",
        "POINT (1 2, 3 4)",
        "POINT Z (1 2)",
        "CIRCLE (1 2)",
        "POLYGON (1 2, 3 4)",
        "LINESTRING (1 2",
        "LINESTRING 1 2",
        "POINT (1 2) x",
        "POINT (1 2);",
        "POINT (a b)",
        "GEOMETRYCOLLECTION (" * 40 + "POINT (1 2)" + ")" * 40,
        "POINT (nan nan)",
    ],
)
def test_texts_that_are_none_are_refused(text):
    with pytest.raises(FormatError, match="is not well-known text"):
        box_of_text(text)


# ---- marks of fields ----


def field(metadata, type_=None):
    keys = {"ARROW:extension:name": "geoarrow.wkb", "ARROW:extension:metadata": metadata}
    return pa.field("g", type_ or pa.binary(), metadata=keys)


PROJJSON = {"type": "ProjectedCRS", "name": "x", "id": {"authority": "EPSG", "code": 3857}}
MARKS = {
    "": Shapes(),
    "{}": Shapes(),
    '{"crs": null}': Shapes(),
    '{"crs": "EPSG:3857"}': Shapes("EPSG:3857"),
    '{"crs": "OGC:CRS84", "crs_type": "authority_code", "edges": "spherical"}': Shapes("OGC:CRS84", "spherical"),
    '{"crs": "5070", "crs_type": "srid"}': Shapes("srid:5070"),
    json.dumps({"crs": PROJJSON}): Shapes("EPSG:3857"),
    json.dumps({"crs": json.dumps(PROJJSON), "crs_type": "projjson"}): Shapes("EPSG:3857"),
}


@pytest.mark.parametrize("text", MARKS)
def test_marks_of_others_are_read_and_kept(text):
    shapes = shapes_of(field(text))
    assert shapes == MARKS[text]
    assert shapes_of(field(text).with_metadata({**field(text).metadata, "ARROW:extension:name": "ogc.wkb"})) == shapes
    again = marked(pa.field("g", pa.binary(), metadata={"x": "y"}), shapes)
    assert shapes_of(again) == shapes
    assert again.metadata[b"x"] == b"y"
    assert shapes_type(again) == WkbType(shapes)
    assert hash(shapes_type(again)) == hash(WkbType(shapes))
    assert shapes_of(pa.field("g", WkbType(shapes))) == shapes


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "no JSON object"),
        ("{", "no JSON object"),
        ('{"edges": "bent"}', "'bent' is not a kind of edges"),
        ('{"crs": {"name": "mine"}}', "described, but not identified"),
        ('{"crs": "GEOGCS[\\"x\\"]"}', "not identified"),
        ('{"crs": [1]}', "not identified"),
        ("[" * 100_000, "no JSON object"),
    ],
)
def test_marks_that_say_nothing_sound_are_refused(text, problem):
    with pytest.raises(SchemaError, match=f"column 'g'.*{problem}"):
        shapes_of(field(text))


def test_other_fields_have_no_shapes():
    for other in (pa.binary(), pa.string(), pa.uuid(), pa.int64()):
        assert shapes_of(pa.field("x", other)) is None
    named = {"ARROW:extension:name": "arrow.json", "ARROW:extension:metadata": ""}
    assert shapes_of(pa.field("x", pa.string(), metadata=named)) is None


def test_an_array_of_an_extension_type_is_measured():
    array = pa.ExtensionArray.from_storage(WkbType(Shapes()), pa.array([point(1, 2), None]))
    assert np.isnan(boxes_of(array).edges[:, 1]).all()
    assert found(boxes_of(array))[0] == (1, 2, 1, 2)
