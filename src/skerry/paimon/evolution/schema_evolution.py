"""Schema evolution: changes recorded by name, applied to the newest schema when they are committed.

A change says `rename a to b`, not `the schema is now this`, so that after a lost race it is applied to the schema
written by the other writer. Options that name columns follow renames.

Spec: docs/formats/paimon.md § 2.5, § 2.7; Paimon spec, Schema, Update Schema; Paimon Java, `SchemaManager`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from skerry.errors import ConflictError, NotFoundError, SchemaError
from skerry.paimon.evolution.schema_draft import SchemaDraft
from skerry.paimon.metadata.option_values import parse_bool, parse_int, parse_list
from skerry.paimon.metadata.options import FileFormat
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.metadata.validation import check_options, check_schema
from skerry.paimon.values.arrow_types import to_arrow_schema
from skerry.paimon.values.types import DataField
from skerry.table.indexes.definitions import INDEX_PREFIX
from skerry.table.rows.schema import leaves, nearest
from skerry.table.statistics.column_statistics import COLUMNS_PROPERTY

__all__ = ["ChangeOptions", "ChangeSchema", "SchemaChange", "SchemaStep", "commit_schema"]

_RULE: Final = "docs/formats/paimon.md § 2.7"
_ATTEMPTS: Final = 20
_MAX_WAIT_S: Final = 0.2

SchemaStep = Callable[[SchemaDraft], None]
"""One change, made to a draft."""


class SchemaChange(Protocol):
    """A requested change of the schema, stated so that it can be applied to any schema."""

    def apply(self, base: PaimonState) -> TableSchema | None:
        """Decide the next schema; None if there is nothing to do."""
        ...


@dataclass(frozen=True, slots=True)
class ChangeSchema:
    """Change the columns of a table.

    Args:
        steps: The changes, in order.
        allow_incompatible: Whether existing rows may violate the new schema.
    """

    steps: tuple[SchemaStep, ...]
    allow_incompatible: bool = False

    def apply(self, base: PaimonState) -> TableSchema | None:
        """Decide the next schema; None if the columns stay as they are.

        Raises:
            SchemaError: A change does not fit the columns, keys or options as they are now.
            UnsupportedError: A type is not supported.
        """
        before = base.schema
        draft = SchemaDraft(before, allow_incompatible=self.allow_incompatible)
        for step in self.steps:
            step(draft)
        if draft.fields == before.fields:
            return None
        names = draft.renamed
        after = replace(
            before,
            id=before.id + 1,
            fields=draft.fields,
            highest_field_id=draft.highest_field_id,
            primary_keys=tuple(names.get(name, name) for name in before.primary_keys),
            options=_indexes_following(_renamed_options(before.options, names), before, draft.fields),
            time_millis=int(time.time() * 1000),
        )
        check_schema(after)
        return after


@dataclass(frozen=True, slots=True)
class ChangeOptions:
    """Change the options of a table.

    Args:
        updates: Options to set.
        removals: Names of options to remove.
        comment: The table's description; None leaves it as it is.
    """

    updates: Mapping[str, str] = field(default_factory=dict)
    removals: tuple[str, ...] = ()
    comment: str | None = None

    def apply(self, base: PaimonState) -> TableSchema | None:
        """Decide the next schema; None if the options stay as they are.

        Raises:
            NotFoundError: An option to remove is not set.
            SchemaError: An option cannot change, or conflicts with the others.
            UnsupportedError: An option has an unknown value.
        """
        before = base.schema
        for name in self.removals:
            if name not in before.options:
                raise NotFoundError(f"no table property {name!r}{nearest(name, before.options)}", location=base.name)
        options = {name: text for name, text in before.options.items() if name not in self.removals}
        options |= {name: str(text) for name, text in self.updates.items()}
        comment = before.comment if self.comment is None else self.comment
        if options == dict(before.options) and comment == before.comment:
            return None
        _check_shards(before.options, options)
        if base.snapshot is not None:
            for name in sorted({*before.options, *options}):
                if before.options.get(name) != options.get(name):
                    _check_change(before.options, options, name)
        after = replace(before, id=before.id + 1, options=options, comment=comment, time_millis=int(time.time() * 1000))
        check_options(after, before.options)
        return after


def _check_shards(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse to introduce shards into a table that has none.

    Raises:
        SchemaError: A format of its files would become that of Amudai.
    """
    for name in ("file.format", "changelog-file.format"):
        wants = [options.get(name, "").strip().lower() == FileFormat.AMUDAI.value for options in (before, after)]
        if wants == [False, True]:
            raise SchemaError(
                f"{name} cannot become amudai: other engines fail on a table that contains a shard; create a "
                "table with file_format='amudai'",
                rule=_RULE,
            )


def commit_schema(state: PaimonState, change: SchemaChange) -> PaimonState:
    """Commit a change of the schema; after a lost race it is applied to the new schema.

    Args:
        state: Any state of the branch.
        change: The change.

    Returns:
        The newest state of the branch, including the change.

    Raises:
        ConflictError: Other writers won every race.
        SchemaError: The change does not fit the schema as it is now.
    """
    for attempt in range(_ATTEMPTS):
        base = state.newest()
        after = change.apply(base)
        if after is None:
            return base
        try:
            base.authority.create_schema(base.storage, base.paths, after, base.schema)
        except ConflictError:
            if attempt + 1 == _ATTEMPTS:
                raise
            time.sleep(random.uniform(0, min(_MAX_WAIT_S, 0.005 * 2**attempt)))
            continue
        return replace(base, schema=after)
    raise AssertionError("every attempt returns or raises")


# Options that name columns ------------------------------------------------------------------------------------------

_NAMING: Final = ("bucket-key", "sequence.field", "rowkind.field", "record-level.time-field", COLUMNS_PROPERTY)
_NAMING_GROUPS: Final = ("sequence-group", "nested-key", "nested-sequence-field")


def _renamed_options(options: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    """Options in which renamed columns have their new names."""
    if not names:
        return dict(options)

    def renamed(text: str) -> str:
        return ",".join(names.get(name, name) for name in parse_list(text))

    result = {}
    for option, text in options.items():
        parts = option.split(".")
        if parts[0] == "fields" and len(parts) > 2:
            key = ".".join(["fields", renamed(parts[1]), *parts[2:]])
            result[key] = renamed(text) if parts[-1] in _NAMING_GROUPS else text
        elif parts[0] == "file-index" and len(parts) == 4:
            result[".".join([*parts[:2], names.get(parts[2], parts[2]), parts[3]])] = text
        elif option in _NAMING or (parts[0] == "file-index" and parts[-1] == "columns"):
            result[option] = renamed(text) if text.strip() else text
        else:
            result[option] = text
    return result


def _indexes_following(options: Mapping[str, str], before: TableSchema, fields: Sequence[DataField]) -> dict[str, str]:
    """Options in which indexes are those of the columns that had them; of columns that are gone there are none."""
    ids = {leaf.name: leaf.field_id for leaf in leaves(before.arrow_schema)}
    names = {leaf.field_id: leaf.name for leaf in leaves(to_arrow_schema(fields))}
    result = {}
    for option, text in options.items():
        if not option.startswith(INDEX_PREFIX):
            result[option] = text
        elif (column := names.get(ids.get(option.removeprefix(INDEX_PREFIX), -1))) is not None:
            result[f"{INDEX_PREFIX}{column}"] = text
    return result


# Options that cannot change -----------------------------------------------------------------------------------------

_IMMUTABLE: Final = frozenset(
    (
        "aggregation.remove-record-on-delete",
        "bucket-function.type",
        "bucket-key",
        "data-evolution.enabled",
        "data-file.path-directory",
        "force-lookup",
        "index-file-in-data-file-dir",
        "merge-engine",
        "partial-update.remove-record-on-delete",
        "partial-update.remove-record-on-sequence-group",
        "partition",
        "partition.default-name",
        "partition.legacy-name",
        "path",
        "pk-clustering-override",
        "primary-key",
        "row-tracking.enabled",
        "rowkind.field",
        "type",
    )
)
"""Options that determine how existing files were written."""
_NEVER_UNSET: Final = ("ignore-delete", "ignore-update-before")


def _check_change(before: Mapping[str, str], after: Mapping[str, str], name: str) -> None:
    """Refuse to change an option that existing data depends on.

    Raises:
        SchemaError: It cannot change.
    """
    old, new = before.get(name), after.get(name)
    if name in _IMMUTABLE:
        raise SchemaError(f"table option {name} cannot change once there are snapshots", rule=_RULE)
    if name == "bucket" and -1 in (parse_int(name, old or "-1"), parse_int(name, new or "-1")):
        raise SchemaError("table option bucket cannot change from or to -1", rule=_RULE)
    if name in _NEVER_UNSET and parse_bool(name, old or "false") and not parse_bool(name, new or "false"):
        raise SchemaError(f"table option {name} cannot change from true to false", rule=_RULE)
    modifiable = parse_bool("deletion-vectors.modifiable", after.get("deletion-vectors.modifiable", "false"))
    if name == "deletion-vectors.enabled" and not modifiable and _truth(old) != _truth(new):
        raise SchemaError(
            "table option deletion-vectors.enabled cannot change, unless deletion-vectors.modifiable is true",
            rule=_RULE,
        )


def _truth(text: Any) -> bool:
    return parse_bool("deletion-vectors.enabled", text or "false")
