"""Modules in zip archives, which Spark's Python workers import PySpark from.

Before every task a worker tells Python's importers to forget what they know (`importlib.invalidate_caches`), as files
may have come. Python 3.11 then reads the list of an archive anew, once per package that was imported from it: a third
of a second for each task. Here an archive is read again only if it is another one than before.
"""

from __future__ import annotations

import os
import sys
import zipimport

__all__ = ["SteadyArchive", "keep_archives"]


class SteadyArchive(zipimport.zipimporter):
    """An importer of modules in an archive, which reads the archive's list again only where the file has changed.

    Args:
        path: The archive, or a folder in it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._seen = self._state()

    def invalidate_caches(self) -> None:
        """Forget what is known of the archive, if it has changed."""
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
    """Let this process, and those forked from it, import from archives by `SteadyArchive`."""
    sys.path_hooks[:] = [SteadyArchive if hook is zipimport.zipimporter else hook for hook in sys.path_hooks]
    for path, finder in list(sys.path_importer_cache.items()):
        if type(finder) is zipimport.zipimporter:
            sys.path_importer_cache[path] = SteadyArchive(path)
