"""Jobs: plan → picklable tasks → commit. Each job exists once; the executor runs its tasks in threads or on Spark.

A job's module loads when it is first asked for, `jobs.compact`: a process that only reads tables loads none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skerry.jobs import add_files as add_files
    from skerry.jobs import analyze as analyze
    from skerry.jobs import append as append
    from skerry.jobs import apply_changes as apply_changes
    from skerry.jobs import change_records as change_records
    from skerry.jobs import compact as compact
    from skerry.jobs import delete as delete
    from skerry.jobs import expire as expire
    from skerry.jobs import merge as merge
    from skerry.jobs import migrate as migrate
    from skerry.jobs import orphans as orphans
    from skerry.jobs import paimon_once as paimon_once
    from skerry.jobs import pick as pick
    from skerry.jobs import purge as purge
    from skerry.jobs import rewrite_deletes as rewrite_deletes
    from skerry.jobs import rewrite_manifests as rewrite_manifests
    from skerry.jobs import row_changes as row_changes


def __getattr__(name: str) -> Any:
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{name}":
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
