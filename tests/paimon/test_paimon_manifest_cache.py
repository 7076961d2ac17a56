"""Manifests and their lists are decoded once, and never wrongly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from golden_tables import golden_tables

from skerry.errors import FormatError, NotFoundError
from skerry.paimon.manifests import cache
from skerry.paimon.manifests.manifest import read_entries
from skerry.paimon.manifests.manifest_list import read_manifest_list
from skerry.paimon.metadata.state import PaimonState, load_state
from skerry.paimon.reading.fallback_scan import scan
from skerry.storage import Storage


@pytest.fixture
def state(tmp_path) -> PaimonState:
    """A table with deletes and updates, in a folder of its own, with nothing cached."""
    table = next(table for table in golden_tables() if len(table.case["snapshots"]) > 2)
    shutil.copytree(table.location, tmp_path / "table")
    cache.shared_cache().clear()
    return load_state(Storage(), str(tmp_path / "table"))


@pytest.fixture
def lists(state) -> list[Path]:
    """Manifest lists and manifests of the newest snapshot."""
    lists = [
        state.paths.manifest(state.snapshot.base_manifest_list),
        state.paths.manifest(state.snapshot.delta_manifest_list),
    ]
    found = [*lists]
    for location in lists:
        found += [state.paths.manifest(manifest.file_name) for manifest in read_manifest_list(Storage(), location)]
    cache.shared_cache().clear()
    return [Path(location) for location in found]


def requests(state: PaimonState, function) -> int:
    before = state.storage.metrics.requests
    function()
    return state.storage.metrics.requests - before


def test_a_second_plan_reads_no_manifest(state, lists):
    first = requests(state, lambda: scan(state).plan())
    again = requests(state, lambda: scan(state).plan())
    assert first >= len(lists)
    assert again == first - len(lists)
    cache.shared_cache().clear()
    fresh = state.newest()
    assert requests(fresh, lambda: scan(fresh).plan()) == first  # one that was planned before knows its files


def test_without_room_every_plan_reads_them(state, lists, monkeypatch):
    shared = cache.shared_cache()
    shared.clear()
    monkeypatch.setattr(shared, "memory_bytes", 0)
    monkeypatch.setattr(shared, "folder", None)
    plan = [requests(state, lambda: scan(state).plan()) for _ in range(2)]
    assert plan[0] == plan[1] >= len(lists)


def test_a_file_that_was_replaced_is_read_again(state, lists):
    kept = read_entries(state.storage, str(lists[-1]))
    assert read_entries(state.storage, str(lists[-1])) is kept
    lists[-1].write_bytes(lists[-1].read_bytes()[:-1])
    with pytest.raises(FormatError):
        read_entries(state.storage, str(lists[-1]))
    lists[-1].unlink()
    with pytest.raises(NotFoundError):
        read_entries(state.storage, str(lists[-1]))


def test_the_recorded_size_is_checked_before_and_after(state, lists):
    size = lists[-1].stat().st_size
    for _ in range(2):
        assert read_entries(state.storage, str(lists[-1]), size=size).num_rows
        with pytest.raises(FormatError, match=f"found {size} bytes, expected {size + 1} by the metadata"):
            read_entries(state.storage, str(lists[-1]), size=size + 1)


def test_files_in_memory_are_not_kept(state, lists):
    storage, location = Storage(), "memory://manifests/manifest-1"
    storage.write(location, lists[-1].read_bytes())
    assert read_entries(storage, location).num_rows
    storage.write(location, b"no manifest", overwrite=True)
    with pytest.raises(FormatError):
        read_entries(storage, location)
