"""The process that Spark forks its Python workers from, with skerry's compiled kernels loaded beforehand.

Spark starts it once per executor (`spark.python.daemon.module`). Workers forked from it begin with every kernel ready
instead of loading or compiling them one by one, which also serves machines where no cache can be written.
"""

from __future__ import annotations

import traceback

from pyspark.daemon import manager

from skerry.kernels import warm_up

if __name__ == "__main__":
    try:
        warm_up()
    except Exception:  # workers do without it, slower; whatever is wrong with a kernel shows where it is used
        traceback.print_exc()
    manager()
