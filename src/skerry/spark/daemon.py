"""The daemon that Spark forks Python workers from, with skerry's modules and compiled kernels preloaded.

Spark starts it once per executor (`spark.python.daemon.module`). Workers forked from it share what is loaded and start
immediately, instead of importing for a second and loading or compiling kernels one by one, which also helps machines
without a writable cache. Nothing here opens a file or a store, as these could not be used after the fork.

The preloaded modules are frozen, so that their memory stays shared and no task collects them again; archives are kept
(`skerry.spark.runtime.archives`).
"""

from __future__ import annotations

import gc
import importlib
import sys
import traceback

from pyspark.daemon import manager

from skerry.kernels import warm_up
from skerry.spark.runtime.archives import keep_archives

TASKS = "pyspark.worker"
"""The module that task workers run; Spark passes it on the command line."""

PRELOADED = ("skerry.iceberg.writing.describe", "skerry.spark.data_source.source")

if __name__ == "__main__":
    try:
        for module in PRELOADED:
            importlib.import_module(module)
        if sys.argv[1:] == [TASKS]:  # planning and commits, which have their own daemons, use few kernels
            warm_up()
    except Exception:  # noqa: BLE001
        traceback.print_exc()
    keep_archives()
    gc.collect()
    gc.freeze()
    manager()
