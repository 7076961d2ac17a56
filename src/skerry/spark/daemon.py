"""The process that Spark forks its Python workers from, with skerry's modules and compiled kernels loaded beforehand.

Spark starts it once per executor (`spark.python.daemon.module`). Workers forked from it share what is loaded and begin
at once, instead of importing for a second and loading or compiling kernels one by one, which also serves machines where
no cache can be written. Nothing here opens a file or a store: what did could not be used after the fork.

Spark collects garbage after every task, and what is loaded here is a hundred thousand objects: a tenth of a second for
each task. They are therefore set aside from collection; their memory then stays shared, too. Before every task Spark
tells importers to look again, which takes those of archives a third of a second; `skerry.spark.runtime.archives` spares
it.
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
"""What workers run that do tasks; Spark names it on the command line."""

PRELOADED = ("skerry.iceberg.writing.describe", "skerry.spark.data_source.source")

if __name__ == "__main__":
    try:
        for module in PRELOADED:
            importlib.import_module(module)
        if sys.argv[1:] == [TASKS]:  # plans and commits, which have daemons of their own, use few kernels
            warm_up()
    except Exception:  # noqa: BLE001
        traceback.print_exc()
    keep_archives()
    gc.collect()
    gc.freeze()
    manager()
