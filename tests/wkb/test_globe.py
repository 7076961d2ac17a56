"""Boxes on a globe: they contain every point of every edge, and are not larger than that."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pyarrow as pa
from wkb_samples import COLLECTION, MULTI_POINT, line, many, point, polygon

from skerry.wkb import GLOBE, Box, GlobeBoxes, Shapes, globe, globe_boxes_of

SPHERE = Shapes(None, "spherical")
MARGIN = 1e-6
EARTH = Shapes("OGC:CRS84", "karney")
WIDE = 6378137.0
SQUEEZED = 0.0066943799901413165  # the square of WGS 84's eccentricity


def box_of(shape, kind=SPHERE):
    return globe_boxes_of(pa.array([shape], pa.binary()), kind).around()


def great_circle(start, end, count=200):
    """Points between two others on the unit sphere, in degrees."""
    a, b = (unit(*place) for place in (start, end))
    angle = math.atan2(np.linalg.norm(np.cross(a, b)), a @ b)
    parts = np.linspace(0, 1, count)[:, None]
    between = (np.sin((1 - parts) * angle) * a + np.sin(parts * angle) * b) / math.sin(angle)
    return np.degrees(np.arctan2(between[:, 1], between[:, 0])), np.degrees(
        np.arctan2(between[:, 2], np.hypot(between[:, 0], between[:, 1]))
    )


def unit(lon, lat):
    lon, lat = math.radians(lon), math.radians(lat)
    return np.array([math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)])


def geodesic(lon, lat, azimuth, metres, steps=400):
    """Points of the shortest line on WGS 84 that begins in a direction: its differential equations, integrated."""

    def slope(place):
        lat, _, direction = place
        root = math.sqrt(1 - SQUEEZED * math.sin(lat) ** 2)
        meridian, across = WIDE * (1 - SQUEEZED) / root**3, WIDE / root
        east = math.sin(direction) / across
        return np.array([math.cos(direction) / meridian, east / math.cos(lat), math.tan(lat) * east])

    place = np.radians([lat, lon, azimuth])
    step = metres / steps
    found = [place]
    for _ in range(steps):
        one = slope(place)
        two = slope(place + one * step / 2)
        three = slope(place + two * step / 2)
        four = slope(place + three * step)
        place = place + step / 6 * (one + 2 * two + 2 * three + four)
        found.append(place)
    lats, lons = np.degrees(np.array(found)[:, :2]).T
    return (lons + 180) % 360 - 180, lats


def is_within(box, lons, lats, slack=1e-7):
    low, high = box.x_min - slack, box.x_max + slack
    inside = (lons >= low) & (lons <= high) if box.x_min <= box.x_max else (lons >= low) | (lons <= high)
    if 180 in (abs(low + slack), abs(high - slack)):
        inside |= np.abs(lons) > 180 - slack  # it has two names
    return bool((inside & (lats >= box.y_min - slack) & (lats <= box.y_max + slack)).all())


def random_place(random, near=None):
    if near is not None:
        size = 10.0 ** random.uniform(-9, 1)
        lon = (near[0] + random.uniform(-size, size) + 180) % 360 - 180
        return lon, max(-90.0, min(90.0, near[1] + random.uniform(-size, size)))
    return random.choice(
        (
            (random.uniform(-180, 180), random.uniform(-90, 90)),
            (float(random.randrange(-180, 181, 30)), float(random.randrange(-90, 91, 15))),
            (random.choice((-180.0, 180.0, 179.9999, -179.9999)), random.uniform(-90, 90)),
        )
    )


def test_boxes_contain_every_point_of_great_circles():
    random = Random(4)
    starts = [random_place(random) for _ in range(1500)]
    lines = [(start, random_place(random, near=random.choice((None, start)))) for start in starts]
    boxes = globe_boxes_of(pa.array([line(*one) for one in lines]), SPHERE).edges.T.tolist()
    tight = 0
    for number, ((start, end), edges) in enumerate(zip(lines, boxes, strict=True)):
        box = Box(*edges)
        if math.sin(math.acos(max(-1.0, min(1.0, unit(*start) @ unit(*end))))) < 1e-7:
            continue  # no direction can be computed here either
        lons, lats = great_circle(start, end)
        at_pole = 90 - np.abs(lats) < 1e-9
        assert is_within(box, np.where(at_pole, box.x_min, lons), lats), (number, start, end, box)
        if box != GLOBE and not at_pole.any():
            tight += 1
            half_step = math.degrees(math.acos(min(1.0, unit(lons[0], lats[0]) @ unit(lons[1], lats[1])))) / 2
            assert box.y_max - lats.max() < half_step + 4e-5, (number, start, end)
            assert lats.min() - box.y_min < half_step + 4e-5, (number, start, end)
            assert {box.x_min, box.x_max} <= {start[0], end[0], -180.0, 180.0}
    assert tight > 1000


def test_boxes_contain_every_point_of_shortest_lines_on_an_ellipsoid():
    random = Random(5)
    for _ in range(60):
        lon, lat = random.uniform(-180, 180), random.uniform(-85, 85)
        lons, lats = geodesic(lon, lat, random.uniform(-180, 180), 10 ** random.uniform(0, 7.2))
        box = box_of(line((lons[0], lats[0]), (lons[-1], lats[-1])), EARTH)
        assert is_within(box, lons, lats), (lon, lat, box)
    assert box_of(line((0, 0), (1, 1)), Shapes("IAU:49900", "vincenty")) == GLOBE  # that of Mars is flatter
    assert box_of(point(1, 2), Shapes("IAU:49900", "vincenty")) == Box(1, 2, 1, 2)
    near = box_of(line((10, 50), (10.001, 50)), EARTH)
    assert near.y_max - 50 < 0.0005


def test_boxes_of_whole_shapes():
    square = [(-10, 40), (20, 40), (20, 50), (-10, 50), (-10, 40)]
    box = box_of(polygon(square))
    assert (box.x_min, box.y_min, box.x_max) == (-10, 40, 20)
    assert 50.9 < box.y_max < 51
    fiji = polygon([(177, -19), (-178, -19), (-178, -16), (177, -16), (177, -19)])
    assert (box_of(fiji).x_min, box_of(fiji).x_max) == (177, -178)
    for ring in (
        [(0, 70), (120, 70), (-120, 70), (0, 70)],  # around a pole
        [(-100, -5), (0, -5), (100, -5), (100, 5), (0, 5), (-100, 5), (-100, -5)],  # which side is meant?
        [(0, 0), (1, 0), (1, 1)],  # not closed
        [(0, 0), (180, 0), (180, 1), (0, 0)],  # opposite points
    ):
        assert box_of(polygon(ring)) == GLOBE
    at_pole = box_of(polygon([(0, 80), (60, 80), (60, 90), (0, 80)]))
    assert (at_pole.x_min, at_pole.y_min, at_pole.x_max, at_pole.y_max) == (-180, 80, 180, 90)
    points = many(MULTI_POINT, *(point(*at) for at in ((170, 1), (-175, 2), (-150, 0), (175, 5))))
    assert box_of(points) == Box(170, 0, -150, 5)
    assert box_of(many(COLLECTION, points, line((-150, 0), (-100, 0)), point(170, 9))) == Box(170, -MARGIN, -100, 9)
    around = Box(-180, -MARGIN, 180, MARGIN)
    assert box_of(many(COLLECTION, *(line((at, 0), (at + 61, 0)) for at in (-180, -120, -60, 0, 60, 119)))) == around
    assert box_of(line((170, 0), (-170, 0), (-30, 0), (100, 0), (-175, 0))) == around
    assert box_of(line((5, 5), (math.nan, 7), (6, 5))).x_max == 6
    assert box_of(line()) is None
    assert box_of(point(180, 0)).x_min == 180
    assert globe_boxes_of(pa.array([point(180, 1), point(-180, 2)]), SPHERE).around() == Box(180, 1, -180, 2)
    nothing = globe_boxes_of(pa.array([None, line(), point(3, 4)], pa.binary()), SPHERE)
    assert np.isnan(nothing.edges[:, :2]).all()
    assert nothing.edges[:, 2].tolist() == [3, 4, 3, 4]
    assert globe_boxes_of(pa.array([], pa.binary()), SPHERE).around() is None


def meets(box, other):
    """Whether two boxes have a point in common, by points of a grid in one that the other contains."""
    edges = np.array([[other.x_min, other.y_min, other.x_max, other.y_max]]).T
    return bool(GlobeBoxes(edges).meet(box)[0])


def random_box(random):
    y = sorted((random.randint(-9, 9) * 10.0, random.randint(-9, 9) * 10.0))
    return Box(random.randint(-18, 18) * 10.0, y[0], random.randint(-18, 18) * 10.0, y[1])


def test_boxes_meet_where_a_grid_has_points_in_both():
    random = Random(8)
    lons, lats = (axis.ravel() for axis in np.meshgrid(np.arange(-180, 181, 10.0), np.arange(-90, 91, 10.0)))

    def has(box):
        names = (lons, np.where(np.abs(lons) == 180, -lons, lons))  # the antimeridian has two
        inside = np.zeros(len(lons), bool)
        for lon in names:
            span = (lon >= box.x_min, lon <= box.x_max)
            inside |= span[0] & span[1] if box.x_min <= box.x_max else span[0] | span[1]
        return inside & (lats >= box.y_min) & (lats <= box.y_max)

    answers = set()
    for _ in range(600):
        one, other = random_box(random), random_box(random)
        expected = bool((has(one) & has(other)).any())
        answers.add(expected)
        assert meets(one, other) is expected is meets(other, one), (one, other)
    assert answers == {True, False}


def test_the_box_around_many_contains_each():
    random = Random(9)
    for _ in range(200):
        boxes = [random_box(random) for _ in range(random.randint(1, 5))]
        edges = np.array([[box.x_min, box.y_min, box.x_max, box.y_max] for box in boxes]).T
        around = GlobeBoxes(edges).around()
        for box in boxes:
            width = (box.x_max - box.x_min) % 360 if box.x_max < box.x_min else box.x_max - box.x_min
            lons = (box.x_min + np.linspace(0, width, 50) + 180) % 360 - 180
            lons = np.where(np.abs(lons) == 180, math.copysign(180, around.x_min), lons)
            if around.x_min <= around.x_max < 180 and around.x_min > -180:
                assert not (np.abs(lons) == 180).any()
            assert is_within(around, lons, np.linspace(box.y_min, box.y_max, 50))


def test_points_are_measured_in_parts(monkeypatch):
    random = Random(10)
    shapes = [line(*(random_place(random) for _ in range(random.randint(0, 9)))) for _ in range(50)]
    whole = globe_boxes_of(pa.array(shapes), SPHERE).edges
    monkeypatch.setattr(globe, "_POINTS_AT_ONCE", 7)
    assert np.array_equal(globe_boxes_of(pa.array(shapes), SPHERE).edges, whole, equal_nan=True)
