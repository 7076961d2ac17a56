"""Homes of Spark whose Python processes start quickly."""

from __future__ import annotations

import importlib.util
import py_compile
import zipfile
from pathlib import Path


def make_spark_home(home: Path, package: Path) -> Path:
    """Spark's programs and jars in a new folder, and its archive of PySpark with compiled modules.

    Each of Spark's Python processes imports PySpark from the archive, and would compile what it needs: a second of
    processor time in a process that lives for two. Tests start hundreds of them.

    Args:
        home: The folder.
        package: Where PySpark is installed.
    """
    home.mkdir(parents=True, exist_ok=True)
    for part in ("bin", "sbin", "jars"):
        (home / part).symlink_to(package / part)
    library = Path("python") / "lib"
    (home / library).mkdir(parents=True)
    with (
        zipfile.ZipFile(package / library / "pyspark.zip") as archive,
        zipfile.ZipFile(home / library / "pyspark.zip", "w") as compiled,
    ):
        for name in archive.namelist():
            module = package.parent / name
            if name.endswith(".py") and module.exists():  # PySpark's own tests are only in the archive
                cached = Path(importlib.util.cache_from_source(module))
                if not cached.exists():
                    py_compile.compile(str(module), doraise=True)
                compiled.write(cached, f"{name}c")
            elif not name.endswith(("/", ".py")):
                compiled.writestr(name, archive.read(name))
    return home
