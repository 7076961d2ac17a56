"""What Spark's Python workers spare before and after every task."""

from __future__ import annotations

import gc
import importlib
import importlib.machinery
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from skerry.spark.runtime.archives import SteadyArchive, keep_archives, prepare_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def importers() -> Iterator[None]:
    """Importers of this process, which are as before afterwards."""
    hooks, finders = list(sys.path_hooks), dict(sys.path_importer_cache)
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path_hooks[:] = hooks
    sys.path[:] = path
    sys.path_importer_cache.clear()
    sys.path_importer_cache.update(finders)
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def archive(path: Path, **modules: str) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for name, text in modules.items():
            made.writestr(f"{name}.py", text)
    return path


def test_an_archive_is_read_again_only_when_it_has_changed(
    tmp_path: Path, importers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path / "a.zip", steady_one="value = 1")
    sys.path.insert(0, str(path))
    assert importlib.import_module("steady_one").value == 1
    keep_archives()
    reads = []
    read = zipimport._read_directory  # type: ignore[attr-defined]
    monkeypatch.setattr(zipimport, "_read_directory", lambda path: reads.append(path) or read(path))
    for _ in range(3):
        importlib.invalidate_caches()
    assert reads == []
    archive(path, steady_one="value = 1", steady_two="value = 2")
    importlib.invalidate_caches()
    assert reads == [str(path)]
    assert importlib.import_module("steady_two").value == 2
    path.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("steady_three")


def test_archives_that_come_later_are_steady_too(tmp_path: Path, importers: None) -> None:
    keep_archives()
    sys.path.insert(0, str(archive(tmp_path / "b.zip", steady_late="value = 3")))
    importlib.invalidate_caches()
    assert importlib.import_module("steady_late").value == 3
    assert isinstance(sys.path_importer_cache[str(tmp_path / "b.zip")], SteadyArchive)


@pytest.mark.parametrize(
    ("started", "is_worker"), [("pyspark.daemon", True), ("skerry.spark.daemon", False), (None, False)]
)
def test_what_spark_starts_is_prepared(
    started: str | None, is_worker: bool, importers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = None if started is None else importlib.machinery.ModuleSpec(started, None)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", spec)
    gc.unfreeze()  # what pytest's own process has frozen
    try:
        prepare_worker()
        assert (gc.get_freeze_count() > 0) == is_worker
        assert (SteadyArchive in sys.path_hooks) == is_worker
    finally:
        gc.unfreeze()


@pytest.mark.spark
def test_workers_have_little_to_do_between_tasks(spark: SparkSession) -> None:
    def look(_: int) -> tuple[int, set[str]]:
        finders = [finder for finder in sys.path_importer_cache.values() if isinstance(finder, zipimport.zipimporter)]
        return gc.get_freeze_count(), {type(finder).__name__ for finder in finders}

    ((frozen, kinds),) = spark.sparkContext.parallelize([0], 1).map(look).collect()
    assert frozen > 50_000
    assert kinds == {"SteadyArchive"}
