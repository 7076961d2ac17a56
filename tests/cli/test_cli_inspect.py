"""`skerry inspect`: the tree of a shard, for people and as JSON."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

from click.testing import CliRunner

from skerry.cli.app import app

SHARDS = Path(__file__).parents[1] / "amudai" / "data"


def _run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["inspect", *arguments])
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.stderr


def _shard(name: str) -> str:
    return str(SHARDS / name / "data.amudai.shard")


def test_people_get_a_tree_with_byte_ranges() -> None:
    lines = _run(_shard("properties")).splitlines()
    assert lines[0].startswith("shard ")
    assert "record_count=50" in lines[0]
    assert "  schema [16352..17102] schema_id_count=12" in lines
    assert "      type 5 type=INT8 signed=true" in lines
    buffers = [line for line in lines if line.strip().startswith("buffer DATA [64..240]")]
    (buffer,) = buffers
    assert buffer.startswith(" " * 8)
    assert 'blocks=1 block_encodings={"TRUNCATE_8": 1}' in buffer


def test_files_other_than_the_root_are_named() -> None:
    lines = _run(_shard("planes")).splitlines()
    assert any("buffer DATA [" in line and ".amudai.stripe:" in line for line in lines)


def test_programs_get_everything() -> None:
    tree = json.loads(_run(_shard("properties"), "--json"))
    assert (tree["kind"], tree["record_count"], tree["stripe_count"]) == ("shard", 50, 2)
    parts = {child["kind"]: child for child in tree["children"]}
    assert parts["properties"]["creation_max"] == {"ticks": 638_000_000_123_456_789}
    assert {"name": "u", "value": 7} in parts["properties"]["custom"]
    first = parts["stripe list"]["children"][0]
    fields = {child["name"]: child for child in first["children"] if child["kind"] == "field"}
    assert fields["0 i"]["range"] == {"low": -46, "high": 38, "has_low": True, "has_high": True}
    assert [buffer["name"] for buffer in fields["0 i"]["children"]] == ["DATA", "RANGE_INDEX"]


def test_ranges_cover_the_file_without_overlap() -> None:
    """Buffers and messages that the tree names lie apart from each other in the file."""
    tree = json.loads(_run(_shard("rows-1025"), "--json"))

    def pieces(entry: dict) -> list[tuple[int, int]]:
        own = [(entry["start"], entry["end"])] if "start" in entry else []
        return own + [piece for child in entry.get("children", ()) for piece in pieces(child)]

    found = sorted(pieces(tree))
    assert all(before[1] <= after[0] for before, after in pairwise(found))
    assert sum(end - start for start, end in found) > 0.95 * Path(_shard("rows-1025")).stat().st_size


def test_another_file_is_no_shard(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"PAR1" * 100)
    assert "not a file of an Amudai shard" in _run(str(tmp_path / "file"), code=1)


def test_what_is_no_shard_is_called_a_file(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"hello")
    assert "error: not an Amudai shard: file of 5 bytes, a shard has at least 28" in _run(f"{tmp_path}/small", code=1)


def test_a_table_without_the_name_of_a_metadata_table_gets_advice() -> None:
    error = _run("nyc.flights", code=1)
    assert (
        error
        == "error: no file 'nyc.flights'; of a table, name what to show, as in: skerry inspect nyc.flights files\n"
    )
    assert "these options need METADATA" in _run(_shard("planes"), "--where", "a = 1", code=2)
