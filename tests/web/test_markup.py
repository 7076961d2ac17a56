"""Elements, tables and plots: what is not markup is escaped, and plots stay within their frames."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from skerry.markup import Html, element, join
from skerry.markup.graphs import assign_lanes
from skerry.markup.lines import Point, line_plot
from skerry.markup.plots import Area, Part, byte_map, treemap


class Texts(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.tags, self.attributes = "", [], []
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")))
def test_any_text_stays_text(text):
    found = Texts(element("p", text, title=text))
    assert (found.text, found.tags, found.attributes) == (text, ["p"], [("title", text)])


def test_markup_stays_markup_and_nothing_is_left_out():
    inner = element("b", "<")
    assert join(inner, "<", 1, 2.5, None, [inner, "&"]) == "<b>&lt;</b>&lt;12.5<b>&lt;</b>&amp;"
    assert isinstance(inner, Html)
    assert element("input", value="", disabled=True, name=None, class_="a") == '<input value="" disabled class="a">'
    assert element("p", "a\0\ud800") == "<p>a\N{REPLACEMENT CHARACTER}?</p>"


def numbers(markup: str, name: str) -> list[float]:
    return [float(each) for each in re.findall(rf'\b{name}="([-\d.]+)"', unescape(markup))]


@given(st.lists(st.floats(0.001, 1e12), min_size=1, max_size=60))
def test_a_treemap_fills_its_frame(sizes):
    drawn = treemap([Area(str(size), "", size) for size in sizes], title="")
    boxes = re.findall(r"<rect[^>]*>", drawn)
    places = [tuple(numbers(box, name)[0] for name in ("x", "y", "width", "height")) for box in boxes]
    assert all(x >= -0.1 and y >= -0.1 and x + w <= 1200.6 and y + h <= 260.6 for x, y, w, h in places)
    assert len(boxes) == len(sizes)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=500))
def test_a_map_of_bytes_draws_few_marks_in_order(lengths):
    start, parts = 0, []
    for length in lengths:
        parts.append(Part("p", "p", start, start + length, "k-data"))
        start += length
    drawn = byte_map(Part("all", "all", 0, start, "k-data", None, tuple(parts)))
    assert drawn.count("<rect") <= 1 + 1200 / 1.5
    assert max(numbers(drawn, "x")) <= 1200


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e15)), max_size=40))
def test_a_line_stays_in_its_frame(points):
    ordered = [Point(x, y, "") for x, y in sorted(points)]
    drawn = line_plot(ordered, title="t", show=str, ends=("", ""))
    assert all(0 <= y <= 96 for y in numbers(drawn, "cy"))
    assert all(0 <= x <= 380 for x in numbers(drawn, "cx"))


def test_a_branch_has_a_lane_of_its_own_until_it_meets_its_parent():
    #  5 (main) → 3 → 2 → 1;  4 (branch) → 2
    lanes = assign_lanes([(5, 3), (4, 2), (3, 2), (2, 1), (1, None)])
    assert [lane for lane, _, _ in lanes] == [0, 1, 0, 0, 0]
    assert [sorted(above) for _, above, _ in lanes] == [[], [0], [0, 1], [0, 1], [0]]
    assert [sorted(below) for _, _, below in lanes] == [[0], [0, 1], [0, 1], [0], []]
