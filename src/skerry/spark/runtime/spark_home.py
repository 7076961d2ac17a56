"""A home of Spark whose Python processes import PySpark from where it is installed.

Spark puts `python/lib/pyspark.zip` of its home before everything else on the path of every Python process that it
starts. The archive has no compiled modules, so that each process compiles what it imports, which takes half a second;
a stream starts five processes, one after the other. Where the processes run the Python that runs here, they find the
same PySpark without the archive, compiled when it was installed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import site
import tempfile
from collections.abc import Mapping
from pathlib import Path

from skerry.kernels import is_trusted, user_cache_directory

__all__ = ["home_without_archive"]

_PARTS = ("bin", "conf", "data", "jars", "sbin")


def home_without_archive(package: Path, environ: Mapping[str, str]) -> Path | None:
    """A folder in the user's cache with links to the parts of an installed PySpark, without its archive.

    Args:
        package: The folder of the package `pyspark`.
        environ: The environment of this process.

    Returns:
        The folder. None if other processes of this Python would not find the package, or nothing can be kept.
    """
    searched = [*site.getsitepackages(), site.getusersitepackages(), *environ.get("PYTHONPATH", "").split(os.pathsep)]
    root = user_cache_directory()
    if root is None or str(package.parent) not in searched or not (package / "bin").is_dir():
        return None
    home = root / "spark-homes" / hashlib.sha256(os.fsencode(package)).hexdigest()[:16]
    try:
        if not home.exists():
            _make(home, package)
        complete = (home / "jars").samefile(package / "jars")
        return home if complete and is_trusted(home.stat()) else None
    except OSError:  # no room, no links, or half of a folder
        return None


def _make(home: Path, package: Path) -> None:
    home.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=home.parent))
    try:
        for part in _PARTS:
            if (package / part).exists():
                (made / part).symlink_to(package / part)
        made.rename(home)
    except OSError:  # perhaps another process was faster
        shutil.rmtree(made, ignore_errors=True)
