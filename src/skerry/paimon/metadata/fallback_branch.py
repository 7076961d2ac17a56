"""The option `scan.fallback-branch`: batch reads take partitions missing from their branch from another one.

The option of the newest schema applies, also for a read of the past, as in Java.

Spec: docs/formats/paimon.md § 9.7; Paimon documentation, Manage Branches; Paimon Java, `FallbackReadFileStoreTable`.
"""

from __future__ import annotations

from dataclasses import replace

from skerry.errors import NotFoundError, SchemaError
from skerry.paimon.metadata.branches import branch_names
from skerry.paimon.metadata.file_names import checked_name
from skerry.paimon.metadata.options import FALLBACK_BRANCH
from skerry.paimon.metadata.snapshots import snapshot_at_time
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.tags import find_tag
from skerry.paimon.values.types import DataField
from skerry.table.rows.schema import nearest

__all__ = ["check_agreement", "fallback_at_tag", "fallback_at_time", "fallback_state"]

_RULE = "docs/formats/paimon.md § 9.7"


def fallback_state(state: PaimonState) -> PaimonState | None:
    """The newest state of the fallback branch of a branch; None if it has none.

    Args:
        state: The newest state of the branch.

    Raises:
        NotFoundError: The fallback branch does not exist; the message proposes the nearest name.
        SchemaError: Its name is not valid.
    """
    branch = state.options.fallback_branch
    if branch is None or branch == state.branch:
        return None
    try:
        return state.newest(checked_name(branch, "branch"))
    except NotFoundError:
        known = branch_names(state.storage, state.paths)
        raise NotFoundError(
            f"table option {FALLBACK_BRANCH}={branch}: the branch does not exist{nearest(branch, known)}",
            location=state.name,
            rule=_RULE,
        ) from None


def fallback_at_time(state: PaimonState, time_millis: int) -> PaimonState | None:
    """The fallback branch at a point in time; None if it had no snapshot then.

    Args:
        state: The newest state of the branch.
        time_millis: Milliseconds since 1970.
    """
    other = fallback_state(state)
    found = None if other is None else snapshot_at_time(other.storage, other.paths, time_millis)
    return None if other is None or found is None else other.at(found)


def fallback_at_tag(state: PaimonState, tag: str) -> PaimonState | None:
    """The tag of the same name on the fallback branch.

    Args:
        state: The newest state of the branch.
        tag: The tag.

    Raises:
        NotFoundError: The fallback branch does not have the tag.
    """
    other = fallback_state(state)
    if other is None:
        return None
    found = find_tag(other.storage, other.paths, tag)
    if found is None:
        raise NotFoundError(
            f"tag {tag!r} is not on branch {other.branch!r}, from which partitions are read that {state.branch!r} does "
            "not have; read by snapshot or as_of",
            location=state.name,
            rule=_RULE,
        )
    return other.at(found.snapshot)


def check_agreement(state: PaimonState, fallback: PaimonState) -> None:
    """Refuse branches that cannot be read together: their columns must be the same, in the same order.

    Java compares only the types and then finds columns by id or by position, depending on the reader.

    Raises:
        SchemaError: The branches differ; the message says where.
    """
    ours, theirs = state.schema, fallback.schema
    if ours.partition_keys != theirs.partition_keys:
        raise _difference(state, fallback, "partition keys", ours.partition_keys, theirs.partition_keys)
    if [_identity(field) for field in ours.fields] != [_identity(field) for field in theirs.fields]:
        raise _difference(state, fallback, "columns", ours.fields, theirs.fields)
    for field, other in zip(ours.fields, theirs.fields, strict=True):
        if other.type.nullable and not field.type.nullable:
            raise _difference(state, fallback, "nulls", (field,), (other,))


def _identity(field: DataField) -> object:
    return field.id, field.name, replace(field.type, nullable=True)


def _difference(
    state: PaimonState, fallback: PaimonState, what: str, ours: tuple[object, ...], theirs: tuple[object, ...]
) -> SchemaError:
    def described(parts: tuple[object, ...]) -> str:
        return ", ".join(f"{p.id}: {p.name} {p.type}" if isinstance(p, DataField) else str(p) for p in parts)

    return SchemaError(
        f"{what} of branch {state.branch!r} and of its fallback branch {fallback.branch!r} differ: "
        f"{described(ours)} | {described(theirs)}",
        location=state.name,
        rule=_RULE,
    )
