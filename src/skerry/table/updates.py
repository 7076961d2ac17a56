"""Updates of a table's schema and partitioning: steps that are gathered first and committed together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeAlias, TypeVar

import pyarrow as pa

__all__ = ["SchemaStep", "SchemaUpdate", "SpecStep", "SpecUpdate"]

SchemaStep: TypeAlias = Callable[[Any], None]
"""Changes the table format's draft of a schema."""
SpecStep: TypeAlias = Callable[[Any], None]
"""Changes the table format's draft of a partition spec."""

Path = str | Sequence[str]
"""A column's dotted name, or its parts."""

Step = TypeVar("Step")


class _Update(Generic[Step]):
    """Changes that are gathered first and committed together.

    Args:
        commit: Commits them.
    """

    def __init__(self, commit: Callable[[tuple[Step, ...]], object]) -> None:
        self._commit = commit
        self._steps: list[Step] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    def commit(self) -> None:
        """Make all changes in one commit, or none of them; the end of a `with` block does so, too.

        Raises:
            SchemaError: A change does not fit the table as it is now.
        """
        self._commit(tuple(self._steps))

    def _step(self, step: Step) -> Self:
        self._steps.append(step)
        return self


class SchemaUpdate(_Update[SchemaStep]):
    """Changes of a schema, made in their order by one commit. Every method gives the update back, for chaining.

    Columns are named as in the schema, those in structs with dots (`place.zip`, `tags.element`, `scores.value.x`); a
    name that has dots in it is written as a list: `["a.b"]`. After a lost race the changes are made to the schema that
    the other writer has left; one that no longer fits it is refused then.
    """

    def add_column(
        self,
        path: Path,
        field_type: pa.DataType | Any,
        doc: str | None = None,
        required: bool = False,
        default_value: Any = None,
    ) -> Self:
        """Add a column as the last of its struct.

        Args:
            path: Its name.
            field_type: An Arrow type, an Iceberg type's name (`long`, `decimal(10, 2)`) or PyIceberg's type.
            doc: What it means.
            required: Whether it has no nulls; only with a default.
            default_value: What rows have that exist already, and what writers put where they have no value
                (format version 3).
        """
        return self._step(lambda draft: draft.add(path, field_type, doc, required, default_value))

    def delete_column(self, path: Path) -> Self:
        """Take a column away. A column of that name that is added later is another one."""
        return self._step(lambda draft: draft.delete(path))

    def rename_column(self, path: Path, new_name: str) -> Self:
        """Give a column another name within its struct; its values and statistics stay."""
        return self._step(lambda draft: draft.rename(path, new_name))

    def update_column(
        self,
        path: Path,
        field_type: pa.DataType | Any = None,
        required: bool | None = None,
        doc: str | None = None,
    ) -> Self:
        """Promote a column's type (int to long, float to double, more decimal digits), describe it, make it optional.

        Args:
            path: The column.
            field_type: Its new type.
            required: Whether it has no nulls; True only with `allow_incompatible_changes`.
            doc: What it means.
        """
        return self._step(lambda draft: draft.update(path, field_type, required, doc))

    def make_column_optional(self, path: Path) -> Self:
        """Let a column have nulls."""
        return self._step(lambda draft: draft.update(path, None, False, None))

    def set_default_value(self, path: Path, default_value: Any) -> Self:
        """Say what writers put where they have no value (format version 3); rows that exist stay as they are."""
        return self._step(lambda draft: draft.set_default(path, default_value))

    def move_first(self, path: Path) -> Self:
        """Make a column the first of its struct."""
        return self._step(lambda draft: draft.move(path, lambda others, field: 0))

    def move_before(self, path: Path, before_path: Path) -> Self:
        """Move a column in front of another one of its struct."""
        return self._step(lambda draft: draft.move(path, draft.position_of(path, before_path)))

    def move_after(self, path: Path, after_name: Path) -> Self:
        """Move a column to the place after another one of its struct."""
        return self._step(lambda draft: draft.move(path, draft.position_of(path, after_name, offset=1)))

    def set_identifier_fields(self, *fields: Path) -> Self:
        """Say which columns identify a row; none to say that none do. They must be required."""
        return self._step(lambda draft: draft.identify(fields))

    def union_by_name(self, schema: pa.Schema | Any) -> Self:
        """Add the columns of another schema that this one lacks, at every depth, and widen types where they are wider.

        Args:
            schema: An Arrow schema, or data that has one.
        """
        arrow = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
        return self._step(lambda draft: draft.unite(arrow))


class SpecUpdate(_Update[SpecStep]):
    """Changes of a partition spec, made in their order by one commit. Every method gives the update back."""

    def add_field(self, field: str) -> Self:
        """Partition by one more transform: `day(ts)`, `bucket(16, id) as shard`, as `create_table` takes them."""
        return self._step(lambda draft: draft.add(field))

    def remove_field(self, name: str) -> Self:
        """Take a partition field away, by its own name (`ts_day`)."""
        return self._step(lambda draft: draft.remove(name))

    def rename_field(self, name: str, new_name: str) -> Self:
        """Give a partition field another name."""
        return self._step(lambda draft: draft.rename(name, new_name))
