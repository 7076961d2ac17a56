"""Less to do between the tasks of Spark's Python workers.

Workers import PySpark from a zip archive. Before every task they invalidate the caches of Python's importers
(`importlib.invalidate_caches`), as new files may have arrived. Python 3.11 then rereads an archive's directory once per
package that was imported from it: up to a third of a second for each task. Here an archive is reread only if it has
changed.

After every task they collect garbage, and the loaded modules are a hundred thousand objects: a tenth of a second. They
are therefore frozen, excluded from collection.
"""

from __future__ import annotations

import gc
import os
import sys
import zipimport

__all__ = ["SteadyArchive", "keep_archives", "prepare_worker"]


class SteadyArchive(zipimport.zipimporter):
    """An importer from an archive that rereads the archive's directory only if the file has changed.

    Args:
        path: The archive, or a folder in it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._seen = self._state()

    def invalidate_caches(self) -> None:
        """Invalidate the cached directory if the archive has changed."""
        state = self._state()
        if state != self._seen:
            self._seen = state
            super().invalidate_caches()

    def _state(self) -> tuple[int, int, int] | None:
        try:
            found = os.stat(self.archive)  # noqa: PTH116  asked at imports
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def keep_archives() -> None:
    """Make this process, and those forked from it, import from archives with `SteadyArchive`."""
    sys.path_hooks[:] = [SteadyArchive if hook is zipimport.zipimporter else hook for hook in sys.path_hooks]
    for path, finder in list(sys.path_importer_cache.items()):
        if type(finder) is zipimport.zipimporter:
            sys.path_importer_cache[path] = SteadyArchive(path)


def prepare_worker() -> None:
    """If Spark started this process, keep its archives and freeze what it has loaded; do nothing in other processes.

    Spark plans, writes streams and commits in processes that are not forked from `skerry.spark.daemon`.
    """
    started = getattr(sys.modules["__main__"], "__spec__", None)
    if started is not None and started.name.startswith("pyspark."):
        keep_archives()
        gc.collect()
        gc.freeze()
