"""Faster imports from zip archives, from which Spark's Python workers import PySpark.

Before every task a worker invalidates the caches of Python's importers (`importlib.invalidate_caches`), as new files
may have arrived. Python 3.11 then rereads an archive's directory once per package that was imported from it: a third
of a second for each task. Here an archive is reread only if it has changed.
"""

from __future__ import annotations

import os
import sys
import zipimport

__all__ = ["SteadyArchive", "keep_archives"]


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
