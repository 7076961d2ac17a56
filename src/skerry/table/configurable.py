"""What changes the branches, tags and settings of a table of any format, and none of its rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Self

from skerry.arguments import check_list, checked_texts
from skerry.errors import SchemaError
from skerry.table.arguments import Rows
from skerry.table.history import MAIN, Retention, Snapshot
from skerry.table.updates import SchemaStep, SchemaUpdate, SpecStep, SpecUpdate
from skerry.table.writable import WritableTable

__all__ = ["ConfigurableTable"]


class ConfigurableTable(WritableTable):
    """A table whose branches, tags, schema, partitioning and properties can be changed."""

    # ---- branches and tags ----

    def create_branch(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        ref: str = MAIN,
        max_ref_age: timedelta | None = None,
        max_snapshot_age: timedelta | None = None,
        min_snapshots_to_keep: int | None = None,
        replace: bool = False,
    ) -> Self:
        """Make a branch, which can be written to with `ref=`.

        Args:
            name: Its name.
            snapshot: Where it begins; the tip of `ref` if None.
            ref: A branch or tag.
            max_ref_age: The branch itself expires when its newest snapshot is older.
            max_snapshot_age: Its older snapshots expire.
            min_snapshots_to_keep: This many of its newest snapshots stay, however old.
            replace: Whether a branch of that name is replaced.

        Raises:
            AlreadyExistsError: There is a branch or tag of that name.
            NotFoundError: There is no such snapshot or reference, or the table has no snapshot yet.
        """
        retention = Retention(max_ref_age, max_snapshot_age, min_snapshots_to_keep)
        self._create_branch(name, snapshot, ref, retention, replace)
        return self

    def create_tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        ref: str = MAIN,
        max_ref_age: timedelta | None = None,
        replace: bool = False,
    ) -> Self:
        """Make a tag: a name for one snapshot, which does not expire while the tag is there.

        Args:
            name: Its name.
            snapshot: What it names; the tip of `ref` if None.
            ref: A branch or tag.
            max_ref_age: The tag itself expires when its snapshot is older.
            replace: Whether a tag of that name is replaced.

        Raises:
            AlreadyExistsError: There is a branch or tag of that name.
            NotFoundError: There is no such snapshot or reference, or the table has no snapshot yet.
        """
        self._create_tag(name, snapshot, ref, max_ref_age, replace)
        return self

    def set_retention(
        self,
        ref: str,
        *,
        max_ref_age: timedelta | None = None,
        max_snapshot_age: timedelta | None = None,
        min_snapshots_to_keep: int | None = None,
    ) -> Self:
        """Change how long a branch or tag holds on to snapshots; None leaves it to the table's properties.

        Raises:
            NotFoundError: There is no such branch or tag.
            SchemaError: A value is not above 0, or does not apply to a tag.
        """
        self._set_retention(ref, Retention(max_ref_age, max_snapshot_age, min_snapshots_to_keep))
        return self

    def drop_ref(self, name: str) -> Self:
        """Drop a branch or tag. Its snapshots stay until they expire.

        Raises:
            NotFoundError: There is no such branch or tag.
            SchemaError: It is `main`.
        """
        self._drop_ref(name)
        return self

    def fast_forward(self, branch: str, to: str) -> Snapshot | None:
        """Move a branch to the tip of another branch or tag, which must be ahead of it, and return its snapshot.

        Raises:
            ConflictError: The branch has snapshots that the other does not have; cherry-pick instead.
            NotFoundError: There is no such branch or tag.
        """
        return self._fast_forward(branch, to)

    def cherry_pick(self, snapshot: int, *, ref: str = MAIN) -> Snapshot | None:
        """Bring to a branch what another snapshot added.

        Returns:
            The branch's snapshot now: the picked one if it was made from the branch's tip, else a new one.

        Raises:
            AlreadyExistsError: The branch has the snapshot's rows already.
            ConflictError: The snapshot removed rows, and the branch has moved on since.
            NotFoundError: There is no such snapshot or branch.
        """
        self._cherry_pick(snapshot, ref)
        return self.current_snapshot(ref)

    def publish(self, wap_id: str, *, ref: str = MAIN) -> Snapshot | None:
        """Publish rows that were staged under an id, `summary["wap.id"]` of what `append(…, staged=True)` returned.

        Returns:
            The branch's snapshot now.

        Raises:
            AlreadyExistsError: It was published already.
            ConflictError: The staged change cannot be applied to the branch as it is now.
            NotFoundError: Nothing was staged under that id.
        """
        self._publish(wap_id, ref)
        return self.current_snapshot(ref)

    def rollback(self, to: int | datetime, *, ref: str = MAIN) -> Snapshot | None:
        """Move a branch back to a snapshot that it was once at. Later ones stay until they expire.

        Args:
            to: A snapshot id, or a moment (UTC if it has no zone): the newest snapshot committed by then.
            ref: The branch.

        Raises:
            NotFoundError: There is no such branch or snapshot, or none that old.
            SchemaError: The snapshot is not an ancestor of the branch's tip.
        """
        return self._rollback(to, ref)

    def set_current_snapshot(self, snapshot: int, *, ref: str = MAIN) -> Snapshot | None:
        """Move a branch to any snapshot of the table.

        Raises:
            NotFoundError: There is no such branch or snapshot.
        """
        self._set_current_snapshot(snapshot, ref)
        return self.current_snapshot(ref)

    # ---- settings ----

    def update_schema(self, *, allow_incompatible_changes: bool = False) -> SchemaUpdate:
        """Change the schema: `with table.update_schema() as update: update.add_column("x", pa.int64())`.

        Args:
            allow_incompatible_changes: Allow required columns without default, and optional columns to become
                required. Rows that exist may then break the schema.
        """
        return SchemaUpdate(lambda steps: self._change_schema(steps, allow_incompatible_changes))

    def update_spec(self) -> SpecUpdate:
        """Change the partitioning of files written from now on; others keep theirs, and are pruned by it."""
        return SpecUpdate(self._change_spec)

    def update_sort_order(self, sort_by: Sequence[str]) -> Self:
        """Change the order of rows in files written from now on; an empty list leaves rows as they come.

        Raises:
            SchemaError: A column or transform does not fit.
        """
        check_list("sort_by", sort_by)
        self._change_sort_order(tuple(sort_by))
        return self

    def set_properties(self, properties: Mapping[str, str] | None = None, **more: str) -> Self:
        """Set table properties.

        Raises:
            SchemaError: A name is reserved, or a value is not text or not a legal one.
        """
        wanted = {**checked_texts("properties", properties), **checked_texts("properties", more)}
        self._change_properties(wanted, ())
        return self

    def remove_properties(self, *names: str) -> Self:
        """Remove table properties.

        Raises:
            NotFoundError: One of them is not set; nothing was removed.
        """
        self._change_properties({}, names)
        return self

    def upgrade(self, format_version: int) -> Self:
        """Raise the format version; there is no way back.

        Raises:
            SchemaError: The version is unknown, or lower than the table's.
        """
        self._upgrade(format_version)
        return self

    # ---- what table formats implement ----

    def _grown_for(self, data: Rows, schema: str) -> Rows:
        if schema != "evolve":
            raise SchemaError(f"schema must be 'match' or 'evolve', found {schema!r}")
        from skerry.table.rows.incoming import open_stream  # not needed for reading

        reader = open_stream(data, self.schema)
        if any(
            name not in self.schema.names or self.schema.field(name).type != reader.schema.field(name).type
            for name in reader.schema.names
        ):
            with self.update_schema() as update:
                update.union_by_name(reader.schema)
        return reader

    @abstractmethod
    def _create_branch(
        self, name: str, snapshot: int | None, ref: str, retention: Retention, replace: bool
    ) -> None: ...

    @abstractmethod
    def _create_tag(
        self, name: str, snapshot: int | None, ref: str, max_ref_age: timedelta | None, replace: bool
    ) -> None: ...

    def _set_retention(self, ref: str, retention: Retention) -> None:
        self._lacks("set_retention", "a tag's age is given when it is made, that of snapshots by the table's options")

    @abstractmethod
    def _drop_ref(self, name: str) -> None: ...

    @abstractmethod
    def _fast_forward(self, branch: str, to: str) -> Snapshot | None: ...

    def _cherry_pick(self, snapshot: int, ref: str) -> None:
        self._lacks("cherry_pick", "use branches and fast_forward")

    def _publish(self, wap_id: str, ref: str) -> None:
        self._lacks("publish", "use branches and fast_forward")

    @abstractmethod
    def _rollback(self, to: int | datetime, ref: str) -> Snapshot | None: ...

    def _set_current_snapshot(self, snapshot: int, ref: str) -> None:
        self._lacks("set_current_snapshot", "use rollback")

    @abstractmethod
    def _change_schema(self, steps: tuple[SchemaStep, ...], allow_incompatible_changes: bool) -> None: ...

    def _change_spec(self, steps: tuple[SpecStep, ...]) -> None:
        self._lacks("update_spec", "partition keys are set when the table is made")

    def _change_sort_order(self, sort_by: tuple[str, ...]) -> None:
        self._lacks("update_sort_order", "rows are sorted by the primary key")

    @abstractmethod
    def _change_properties(self, updates: Mapping[str, str], removals: tuple[str, ...]) -> None: ...

    def _upgrade(self, format_version: int) -> None:
        self._lacks("upgrade", "every commit writes the newest version")
