"""A schema while it is being changed: columns found by name, edited by field id, at every depth.

Members of ROWs are columns with ids of their own. Elements of arrays and keys and values of maps have none: they are
part of their column's type, and are addressed as `element`, `key` and `value`.

Spec: docs/formats/paimon.md § 2.5; Paimon spec, Schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from skerry.errors import FormatError, SchemaError, UnsupportedError
from skerry.paimon.evolution.type_widening import is_text_of, is_wider
from skerry.paimon.metadata.option_values import parse_bool
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.values.arrow_types import DOC_KEY, check_default, to_paimon_type
from skerry.paimon.values.casts import plan_cast
from skerry.paimon.values.types import (
    ArrayType,
    AtomicType,
    DataField,
    MapType,
    MultisetType,
    PaimonType,
    RowType,
    VectorType,
    decode_type,
    with_fresh_ids,
)
from skerry.table.rows.schema import is_list, nearest
from skerry.variant import is_variant

__all__ = ["Path", "SchemaDraft"]

Path = str | Sequence[str]
"""A column: its name, a dotted path into its type, or the path as a sequence, for names that contain dots."""

_RULE: Final = "docs/formats/paimon.md § 2.5"
_NO_CASTS: Final = "disable-explicit-type-casting"
_Siblings = tuple[DataField, ...]


class SchemaDraft:
    """A schema that is being changed.

    Args:
        schema: The schema to start from.
        allow_incompatible: Whether existing rows may violate the new schema: a column that becomes NOT NULL.

    Attributes:
        fields: The columns as they are now.
        renamed: New names of top-level columns, by their original names.
    """

    def __init__(self, schema: TableSchema, *, allow_incompatible: bool = False) -> None:
        self.fields: _Siblings = schema.fields
        self.highest_field_id = schema.highest_field_id
        self._schema = schema
        self._allow_incompatible = allow_incompatible
        self._names = {field.id: field.name for field in schema.fields}

    @property
    def renamed(self) -> dict[str, str]:
        """New names of top-level columns, by their original names."""
        now = {field.id: field.name for field in self.fields}
        return {name: now[number] for number, name in self._names.items() if now.get(number, name) != name}

    # ---- changes ----

    def add(
        self, path: Path, type_: pa.DataType | PaimonType | str, doc: str | None, required: bool, default: Any
    ) -> None:
        """Add a column as the last of its ROW."""
        parts = self._parts(path, new=True)
        name = parts[-1]
        if not name:
            raise SchemaError("a column needs a name")
        if required:
            raise SchemaError(
                f"column {_written(path)!r} cannot be NOT NULL: existing rows have no value for it", rule=_RULE
            )
        number = self._next_id()
        field = DataField(number, name, self._type(path, type_), doc)
        if default is not None:
            field = self._with_default(path, field, default)

        def added(siblings: _Siblings) -> _Siblings:
            if any(other.name == name for other in siblings):
                raise SchemaError(f"column {_written(path)!r} already exists")
            return (*siblings, field)

        self._edit_siblings(path, parts, added)

    def delete(self, path: Path) -> None:
        """Delete a column, with everything nested in it."""
        parts = self._parts(path)
        self._refuse_key(parts, (*self._schema.partition_keys, *self._schema.primary_keys), "deleted")

        def deleted(siblings: _Siblings) -> _Siblings:
            remaining = tuple(field for field in siblings if field.name != parts[-1])
            if not remaining:
                raise SchemaError(f"the last column of {_whole(parts)} cannot be deleted")
            return remaining

        self._edit_siblings(path, parts, deleted)

    def rename(self, path: Path, name: str) -> None:
        """Give a column another name within its ROW."""
        parts = self._parts(path)
        if not name:
            raise SchemaError("a column needs a name")
        self._refuse_key(parts, self._schema.partition_keys, "renamed")

        def renamed(siblings: _Siblings) -> _Siblings:
            if name != parts[-1] and any(other.name == name for other in siblings):
                raise SchemaError(f"column {_written(path)!r} cannot be renamed: column {name!r} already exists")
            return tuple(replace(field, name=name) if field.name == parts[-1] else field for field in siblings)

        self._edit_siblings(path, parts, renamed)

    def update(
        self, path: Path, type_: pa.DataType | PaimonType | str | None, required: bool | None, doc: str | None
    ) -> None:
        """Change a column's type, set its nullability, or describe it."""
        parts = self._parts(path)
        if type_ is not None:
            wanted = self._type(path, type_)
            self._edit_type(path, parts, lambda old: self._retyped(path, parts, old, wanted))
            if len(parts) == 1:
                self._edit_field(path, parts, _checked_default)
        if required is not None:
            self._edit_type(path, parts, lambda old: self._with_nullability(path, parts, old, not required))
        if doc is not None:
            self._edit_field(path, parts, lambda field: replace(field, description=doc))

    def set_default(self, path: Path, value: Any) -> None:
        """Set the value that writers use if they have none; None removes it. Existing rows stay as they are."""
        parts = self._parts(path)
        self._edit_field(path, parts, lambda field: self._with_default(path, field, value))

    def move(self, path: Path, index_of: Callable[[list[DataField], DataField], int]) -> None:
        """Move a column within its ROW.

        Args:
            path: The column.
            index_of: Returns its position among the others.
        """
        parts = self._parts(path)

        def moved(siblings: _Siblings) -> _Siblings:
            field = next(field for field in siblings if field.name == parts[-1])
            others = [other for other in siblings if other.id != field.id]
            position = index_of(others, field)
            return (*others[:position], field, *others[position:])

        self._edit_siblings(path, parts, moved)

    def position_of(self, path: Path, other: Path, *, offset: int = 0) -> Callable[[list[DataField], DataField], int]:
        """The position of `other` among the columns of its ROW, of which `path` is one.

        Args:
            path: The column that moves.
            other: The column before which it is moved.
            offset: 1 to move it after that column.

        Raises:
            SchemaError: They are not members of the same ROW, or are the same column.
        """
        target = self._parts(other)

        def index_of(others: list[DataField], field: DataField) -> int:
            if target[:-1] == self._parts(path)[:-1]:
                for position, candidate in enumerate(others):
                    if candidate.name == target[-1]:
                        return position + offset
            raise SchemaError(
                f"column {_written(path)!r} cannot be moved to {_written(other)!r}: they are in different ROWs"
            )

        return index_of

    def identify(self, paths: Sequence[Path]) -> None:
        """Declare which columns identify a row: those that the table was created with.

        Raises:
            SchemaError: They differ.
        """
        if [_written(path) for path in paths] != list(self._schema.primary_keys):
            raise SchemaError("the primary key of a Paimon table cannot change", rule="docs/formats/paimon.md § 2.5")

    def unite(self, schema: pa.Schema) -> None:
        """Add the columns that only another schema has, and widen those that are wider there."""
        self._unite((), schema)

    def _unite(self, prefix: tuple[str, ...], fields: Iterable[pa.Field]) -> None:
        for field in fields:
            path = (*prefix, field.name)
            try:
                found = self._find(list(path))
            except SchemaError:
                doc = (field.metadata or {}).get(DOC_KEY)
                self.add(path, field.type, None if doc is None else doc.decode(), required=False, default=None)
                continue
            if pa.types.is_nested(field.type):
                if not _is_like(found, field.type):
                    raise SchemaError(f"column {_written(path)!r} is {found}, not {field.type}")
                self._unite(path, _arrow_children(field.type))
                continue
            wanted = self._type(path, field.type)
            if not is_wider(wanted, found):
                if not is_wider(found, wanted):
                    raise SchemaError(f"column {_written(path)!r} cannot change from {found} to {wanted}", rule=_RULE)
                self.update(path, wanted, None, None)

    # ---- finding ----

    def _find(self, parts: Sequence[str]) -> PaimonType:
        """The type at a path.

        Raises:
            SchemaError: The path does not exist.
        """
        type_: PaimonType = RowType(self.fields)
        for part in parts:
            below = dict(_children(type_))
            if part not in below:
                known = [".".join(names) for names in _all_paths(RowType(self.fields))]
                raise SchemaError(f"no column {'.'.join(parts)!r}{nearest('.'.join(parts), known)}")
            type_ = below[part]
        return type_

    def _parts(self, path: Path, *, new: bool = False) -> list[str]:
        """A path's names; the last need not exist yet if it is new."""
        if not isinstance(path, str):
            parts = list(path)
        else:
            found = _descend(RowType(self.fields), path)
            if found is None and new:
                parent, dot, name = path.rpartition(".")
                above = _descend(RowType(self.fields), parent) if dot else []
                if above is None:
                    raise SchemaError(
                        f"no ROW {parent!r} for column {path!r}; a name that contains a dot is written [{path!r}]"
                    )
                found = [*above, name]
            parts = found if found is not None else path.split(".")
        if new:
            return [*self._row_parts(parts[:-1]), parts[-1]] if parts else [""]
        self._find(parts)
        return parts

    def _row_parts(self, parts: list[str]) -> list[str]:
        """The ROW that new members are added to; the name of an array or a map means its elements or values."""
        type_ = self._find(parts)
        if isinstance(type_, ArrayType | MultisetType):
            return self._row_parts([*parts, "element"])
        if isinstance(type_, MapType):
            return self._row_parts([*parts, "value"])
        if not isinstance(type_, RowType):
            raise SchemaError(f"column {'.'.join(parts)!r} is not a ROW and cannot contain columns")
        return parts

    def _refuse_key(self, parts: Sequence[str], keys: Iterable[str], what: str) -> None:
        names = self.renamed
        if len(parts) == 1 and parts[0] in {names.get(key, key) for key in keys}:
            raise SchemaError(f"column {parts[0]!r} is part of a key of the table, and cannot be {what}", rule=_RULE)

    # ---- editing ----

    def _edit_siblings(self, path: Path, parts: Sequence[str], edit: Callable[[_Siblings], _Siblings]) -> None:
        """Replace the members of the ROW that contains the last name of a path."""

        def edited(type_: PaimonType) -> PaimonType:
            if not isinstance(type_, RowType):
                raise SchemaError(
                    f"{_written(path)!r} is part of its type: it cannot be renamed, moved or deleted", rule=_RULE
                )
            return replace(type_, fields=edit(type_.fields))

        root = _rebuilt(RowType(self.fields), list(parts[:-1]), edited)
        assert isinstance(root, RowType)
        self.fields = root.fields

    def _edit_field(self, path: Path, parts: Sequence[str], edit: Callable[[DataField], DataField]) -> None:
        self._edit_siblings(
            path,
            parts,
            lambda siblings: tuple(edit(field) if field.name == parts[-1] else field for field in siblings),
        )

    def _edit_type(self, path: Path, parts: Sequence[str], edit: Callable[[PaimonType], PaimonType]) -> None:
        if len(parts) > 1 and isinstance(self._find(parts[:-1]), MapType) and parts[-1] == "key":
            raise SchemaError(f"keys of map {'.'.join(parts[:-1])!r} cannot be changed", rule=_RULE)
        root = _rebuilt(RowType(self.fields), list(parts), edit)
        assert isinstance(root, RowType)
        self.fields = root.fields

    def _retyped(self, path: Path, parts: Sequence[str], old: PaimonType, wanted: PaimonType) -> PaimonType:
        wanted = replace(wanted, nullable=old.nullable)
        if wanted == old:
            return old
        schema = self._schema
        self._refuse_key(parts, (*schema.partition_keys, *schema.primary_keys, *schema.bucket_keys), "of another type")
        if not is_wider(old, wanted):
            self._check_cast(path, parts, old, wanted)
        return wanted

    def _check_cast(self, path: Path, parts: Sequence[str], old: PaimonType, wanted: PaimonType) -> None:
        """Refuse a change of type that existing values cannot follow, or only with losses that were not allowed."""
        what = f"column {_written(path)!r} cannot change from {old} to {wanted}"
        if len(parts) > 1 or not isinstance(old, AtomicType) or not isinstance(wanted, AtomicType):
            raise SchemaError(what, rule=_RULE)
        if parse_bool(_NO_CASTS, self._schema.options.get(_NO_CASTS, "false")):
            raise SchemaError(f"{what}: table option {_NO_CASTS}=true", rule=_RULE)
        try:
            plan_cast(old, wanted)
        except UnsupportedError as error:
            raise SchemaError(f"{what}: {error.message}", rule=_RULE) from error
        if not self._allow_incompatible and not is_text_of(old, wanted):
            raise SchemaError(
                f"{what} without losing information; allow incompatible changes if existing values are to be cast",
                rule=_RULE,
            )

    def _with_nullability(self, path: Path, parts: Sequence[str], old: PaimonType, nullable: bool) -> PaimonType:
        if nullable == old.nullable:
            return old
        if not nullable and not self._allow_incompatible:
            raise SchemaError(
                f"column {_written(path)!r} cannot become NOT NULL: existing rows may have nulls in it; allow "
                "incompatible changes if you know that they have none"
            )
        self._refuse_key(parts, self._schema.primary_keys, "null")
        return replace(old, nullable=nullable)

    # ---- types and values ----

    def _next_id(self) -> int:
        self.highest_field_id += 1
        return self.highest_field_id

    def _type(self, path: Path, type_: pa.DataType | PaimonType | str) -> PaimonType:
        if isinstance(type_, pa.DataType):
            return to_paimon_type(type_, self._next_id, path=tuple([path] if isinstance(path, str) else path))
        if isinstance(type_, str):
            try:
                return decode_type(type_)
            except FormatError as error:
                raise SchemaError(f"column {_written(path)!r}: there is no Paimon type {type_!r}") from error
        return with_fresh_ids(type_, self._next_id)

    def _with_default(self, path: Path, field: DataField, value: Any) -> DataField:
        text = None if value is None else str(value)
        changed = replace(field, default_value=text)
        try:
            check_default(changed)
        except SchemaError as error:
            raise SchemaError(f"column {_written(path)!r}: {error.message}") from error
        return changed


def _written(path: Path) -> str:
    return path if isinstance(path, str) else ".".join(path)


def _whole(parts: Sequence[str]) -> str:
    return f"ROW {'.'.join(parts[:-1])!r}" if len(parts) > 1 else "a table"


def _children(type_: PaimonType) -> Iterator[tuple[str, PaimonType]]:
    """The types within a type, with the names that address them."""
    match type_:
        case RowType(fields):
            yield from ((field.name, field.type) for field in fields)
        case ArrayType(element) | MultisetType(element):
            yield "element", element
        case MapType(key, value):
            yield from (("key", key), ("value", value))


def _all_paths(type_: PaimonType) -> Iterator[tuple[str, ...]]:
    for name, child in _children(type_):
        yield (name,)
        for below in _all_paths(child):
            yield (name, *below)


def _descend(type_: PaimonType, path: str) -> list[str] | None:
    """The names of a dotted path; a column whose name is the whole path takes precedence."""
    children = list(_children(type_))
    for name, _ in children:
        if name == path:
            return [name]
    for name, child in children:
        if path.startswith(f"{name}."):
            below = _descend(child, path[len(name) + 1 :])
            if below is not None:
                return [name, *below]
    return None


def _rebuilt(type_: PaimonType, parts: Sequence[str], edit: Callable[[PaimonType], PaimonType]) -> PaimonType:
    """A type with an edit applied at a path."""
    if not parts:
        return edit(type_)
    first, rest = parts[0], parts[1:]
    match type_:
        case RowType(fields):
            changed = (
                replace(field, type=_rebuilt(field.type, rest, edit)) if field.name == first else field
                for field in fields
            )
            return replace(type_, fields=tuple(changed))
        case ArrayType(element) | MultisetType(element):
            return replace(type_, element=_rebuilt(element, rest, edit))
        case MapType(key, value):
            if first == "key":
                return replace(type_, key=_rebuilt(key, rest, edit))
            return replace(type_, value=_rebuilt(value, rest, edit))
        case AtomicType() | VectorType():
            raise SchemaError(f"type {type_} contains no other types")


def _is_like(type_: PaimonType, arrow: pa.DataType) -> bool:
    if pa.types.is_struct(arrow) and not is_variant(arrow):
        return isinstance(type_, RowType)
    if pa.types.is_map(arrow):
        return isinstance(type_, MapType | MultisetType)
    return is_list(arrow) and isinstance(type_, ArrayType)


def _arrow_children(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(type_):
        return list(type_)
    if pa.types.is_map(type_):
        return [type_.item_field.with_name("value")]
    return [type_.value_field.with_name("element")]


def _checked_default(field: DataField) -> DataField:
    """The column, whose default must be one of its type; raises `SchemaError` if it is not."""
    if field.default_value is not None:
        check_default(field)
    return field
