"""Success files of partitions: a batch job says that the partitions to which it has written are complete.

Spec: docs/formats/paimon.md § 13.10.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from typing import Final

from skerry.errors import NotFoundError, UnsupportedError
from skerry.paimon.metadata.option_values import parse_bool, parse_list
from skerry.paimon.metadata.partition_names import partition_texts
from skerry.paimon.metadata.state import PaimonState
from skerry.storage import join

__all__ = ["SUCCESS_FILE", "check_done_action", "mark_done", "marks_done"]

_END_INPUT: Final = "partition.end-input-to-done"
_ACTION: Final = "partition.mark-done-action"
_MARK_BY_FILE: Final = "success-file"
SUCCESS_FILE: Final = "_SUCCESS"


def marks_done(options: Mapping[str, str]) -> bool:
    """Whether batch jobs mark the partitions to which they have written."""
    return parse_bool(_END_INPUT, options.get(_END_INPUT, "false"))


def check_done_action(options: Mapping[str, str]) -> None:
    """Refuse actions that only other services can do, in tables that mark partitions.

    Raises:
        UnsupportedError: One is among them.
    """
    others = sorted(set(parse_list(options.get(_ACTION, _MARK_BY_FILE))) - {_MARK_BY_FILE})
    if others and marks_done(options):
        raise UnsupportedError(
            f"table option {_ACTION}={','.join(others)} with {_END_INPUT}=true is not supported, only {_MARK_BY_FILE}"
        )


def mark_done(state: PaimonState, partitions: Collection[bytes]) -> None:
    """Write a success file into the folders of partitions (rows with arity), or renew its time."""
    schema, paths = state.schema, state.options.paths(state.location, state.branch)
    texts = partition_texts(schema.partition_fields, list(partitions), legacy=state.options.legacy_partition_names)
    now = int(time.time() * 1000)
    for values in texts:
        folder = paths.partition(list(zip(schema.partition_keys, values, strict=True)))
        location = join(folder, SUCCESS_FILE)
        try:
            created = int(json.loads(state.storage.read(location))["creationTime"])
        except (NotFoundError, KeyError, TypeError, ValueError):
            created = now
        data = json.dumps({"creationTime": created, "modificationTime": now}).encode()
        state.storage.write(location, data, overwrite=True)
