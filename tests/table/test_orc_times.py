"""Timestamps of ORC files whose writers were in other time zones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from skerry.errors import FormatError, UnsupportedError
from skerry.storage import Storage
from skerry.table.files.orc_times import corrected_times, writer_zone

NS = pa.timestamp("ns")
HOUR = 3600 * 10**9
MILLI = 10**6

# what PyArrow reads, and what Java does
SHANGHAI = [
    (10**9 + MILLI, MILLI),  # stored as a time before 1970 in UTC, and not recognised as one by PyArrow
    (7 * HOUR + 10**9 + 500 * MILLI, 7 * HOUR + 500 * MILLI),
    (8 * HOUR + 500 * MILLI, 8 * HOUR + 500 * MILLI),
    (-HOUR + 500 * MILLI, -HOUR + 500 * MILLI),
    (HOUR, HOUR),
    (HOUR + 1000, HOUR + 1000),
    (100 * HOUR + MILLI, 100 * HOUR + MILLI),
    (None, None),
]
NEW_YORK = [
    (-2 * 10**9 + 500 * MILLI, -(10**9) + 500 * MILLI),  # after 1970 in UTC
    (-5 * HOUR - 500 * MILLI, -5 * HOUR + 500 * MILLI),  # the second before 1970, which Java writes and reads late
    (-6 * HOUR + MILLI, -6 * HOUR + MILLI),
    (MILLI, MILLI),
]


@pytest.mark.parametrize(
    ("zone", "cases"), [("Asia/Shanghai", SHANGHAI), ("America/New_York", NEW_YORK)], ids=["east", "west"]
)
def test_times_are_what_java_reads(zone: str, cases: list[tuple[int | None, int | None]]) -> None:
    read, wanted = ([pair[i] for pair in cases] for i in (0, 1))
    times, expected = pa.array(read, NS), pa.array(wanted, NS)
    assert corrected_times(times, lambda: zone) == expected
    assert corrected_times(times[1:], lambda: zone) == expected[1:]
    for utc in ("GMT", "UTC", None):
        assert corrected_times(times, lambda utc=utc: utc) == times
    members = pa.StructArray.from_arrays([times, times], names=["a", "b"], mask=pa.array([False] * len(times)))
    lists = pa.ListArray.from_arrays([0, 1, len(times)], members)
    maps = pa.MapArray.from_arrays([0, len(times)], range(len(times)), lists.flatten())
    for nested in (lists, maps, lists[1:], maps[:1]):
        plain = nested.to_pylist()
        found = corrected_times(nested, lambda: zone)
        assert found.type == nested.type
        text = repr(plain)
        for before, after in cases:
            if before is not None:
                text = text.replace(repr(pa.scalar(before, NS).as_py()), f"@{after}@")
        for _, after in cases:
            if after is not None:
                text = text.replace(f"@{after}@", repr(pa.scalar(after, NS).as_py()))
        assert repr(found.to_pylist()) == text


def test_the_zone_is_asked_for_only_where_it_matters() -> None:
    def fail() -> str:
        raise AssertionError

    for values in ([0, HOUR, 50 * HOUR + MILLI, -1000 * HOUR + MILLI, None], []):
        assert corrected_times(pa.array(values, NS), fail) == pa.array(values, NS)
    zoned = pa.array([MILLI], pa.timestamp("ns", "UTC"))
    assert corrected_times(zoned, fail) is zoned


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="in time zone 'Mars/Olympus', which is unknown"):
        corrected_times(pa.array([MILLI], NS), lambda: "Mars/Olympus")


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "zstd"])
def test_the_zone_of_a_stripe(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "a"
    orc.write_table(pa.table({f"column_{i}": [i] for i in range(30)}), path, compression=codec)
    tail = orc.ORCFile(path).reader.serialized_file_tail()
    assert writer_zone(Storage(), str(path), tail, 0) == "GMT"
    with pytest.raises(FormatError, match="stripe 1"):
        writer_zone(Storage(), str(path), tail, 1)
    data = bytearray(path.read_bytes())
    data[3:-200] = b"\xff" * len(data[3:-200])
    path.write_bytes(data)
    with pytest.raises((FormatError, UnsupportedError)):
        writer_zone(Storage(), str(path), tail, 0)
