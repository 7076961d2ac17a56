"""A Paimon table: its newest known state, and the operations on it, named as those of `skerry.catalog.Table`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import pyarrow as pa

from skerry.errors import CommitUnknownError, SkerryError
from skerry.paimon.commit import PaimonTarget, retry_policy
from skerry.paimon.creation import create_table, first_schema
from skerry.paimon.live_files import index_entries
from skerry.paimon.operations import AppendRows, CommitId, TableChange
from skerry.paimon.paths import MAIN_BRANCH
from skerry.paimon.snapshot import Snapshot
from skerry.paimon.state import PaimonState, load_state
from skerry.paimon.writing.bucket_book import BucketBook
from skerry.paimon.writing.dynamic_buckets import DynamicBuckets
from skerry.paimon.writing.layout import WriteLayout
from skerry.paimon.writing.table_writers import WrittenRows, write_rows
from skerry.storage import Storage
from skerry.storage import name as folder_name
from skerry.table.commit import Operation, commit
from skerry.table.incoming import conform

__all__ = ["PaimonTable"]


class PaimonTable:
    """One Paimon table in a folder.

    Args:
        state: A state of its main branch.
    """

    def __init__(self, state: PaimonState) -> None:
        self.state = state

    # ---- making and finding ----

    @classmethod
    def create(
        cls,
        storage: Storage,
        location: str,
        schema: pa.Schema,
        *,
        partition_by: Sequence[str] = (),
        primary_key: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
        name: str | None = None,
    ) -> Self:
        """Make a table.

        Args:
            storage: Access to its files.
            location: Its folder.
            schema: Its columns.
            partition_by: Names of the partition keys.
            primary_key: Names of the columns that identify a row.
            properties: Its options, in Paimon's words.
            comment: What it is.
            name: Its name, for messages; the folder's if None.

        Raises:
            AlreadyExistsError: There is a table already.
            SchemaError: A column, key or option does not fit.
            UnsupportedError: An option is not supported; the message names it.
        """
        made = first_schema(
            schema, partition_by=partition_by, primary_key=primary_key, properties=properties, comment=comment
        )
        return cls(create_table(storage, location, made, name=name or folder_name(location)))

    @classmethod
    def open(cls, storage: Storage, location: str, *, name: str | None = None) -> Self:
        """Load a table.

        Raises:
            NotFoundError: There is none.
        """
        return cls(load_state(storage, location, table=name))

    def refresh(self) -> PaimonState:
        """Load the newest state."""
        self.state = self._target(MAIN_BRANCH).load()
        return self.state

    def branch_state(self, ref: str = MAIN_BRANCH) -> PaimonState:
        """The newest state of a branch.

        Raises:
            NotFoundError: There is no such branch.
        """
        return self.refresh() if ref == MAIN_BRANCH else self._target(ref).load()

    def commit(self, operation: Operation[PaimonState, TableChange], *, ref: str = MAIN_BRANCH) -> PaimonState:
        """Commit an operation through the one commit loop.

        Raises:
            ConflictError: Other writers won every race, or the operation does not fit what they did.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        state = commit(operation, self._target(ref), retry_policy)
        if ref == MAIN_BRANCH:
            self.state = state
        return state

    def _target(self, ref: str) -> PaimonTarget:
        return PaimonTarget(self.state.storage, self.state.location, ref, self.state.name)

    # ---- identity ----

    @property
    def name(self) -> str:
        """Its name."""
        return self.state.name

    @property
    def location(self) -> str:
        """Its folder."""
        return self.state.location

    @property
    def schema(self) -> pa.Schema:
        """The newest schema; fields carry their id in the metadata `PARQUET:field_id`."""
        return self.state.arrow_schema

    @property
    def properties(self) -> dict[str, str]:
        """The table's options."""
        return self.state.properties

    @property
    def partition_by(self) -> list[str]:
        """Names of the partition keys."""
        return list(self.state.schema.partition_keys)

    @property
    def primary_key(self) -> list[str]:
        """Names of the columns that identify a row; none in append tables."""
        return list(self.state.schema.primary_keys)

    # ---- rows ----

    def append(
        self,
        data: Any,
        *,
        ref: str = MAIN_BRANCH,
        snapshot_properties: Mapping[str, str] | None = None,
        commit_id: CommitId | None = None,
        watermark: int | None = None,
    ) -> Snapshot | None:
        """Add rows; in a primary-key table they take the place of rows with their keys, as its merge engine says.

        Args:
            data: Anything with the Arrow C stream interface.
            ref: The branch.
            snapshot_properties: The snapshot's properties.
            commit_id: Who commits what: a commit that was made already is not made again. A new one if None.
            watermark: Event time that the rows have reached, in milliseconds.

        Returns:
            The branch's snapshot.

        Raises:
            NotFoundError: There is no such branch.
            SchemaError: The data does not fit the table; nothing was written.
            UnsupportedError: An option of the table is not supported for writing.
            ConflictError: Other writers won every race; the files written were removed.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        state = self.branch_state(ref)
        layout = WriteLayout.of(state)
        batches = conform(data, state.arrow_schema)
        book = _book(state, layout)
        indexes = _indexes(state, layout)
        written = write_rows(layout, batches, book, indexes)
        return self.append_rows(
            layout,
            written,
            book,
            indexes,
            ref=ref,
            properties=snapshot_properties,
            commit_id=commit_id,
            watermark=watermark,
        )

    def append_rows(
        self,
        layout: WriteLayout,
        written: WrittenRows,
        book: BucketBook,
        indexes: DynamicBuckets | None = None,
        *,
        ref: str = MAIN_BRANCH,
        properties: Mapping[str, str] | None = None,
        commit_id: CommitId | None = None,
        watermark: int | None = None,
    ) -> Snapshot | None:
        """Publish what writers have written; see `append`."""
        operation = AppendRows(
            layout, written, book, indexes, commit_id=commit_id, properties=properties, watermark=watermark
        )
        try:
            snapshot = self.commit(operation, ref=ref).snapshot
        except CommitUnknownError:
            raise
        except SkerryError:  # any other error of ours means: provably not committed
            self._remove(location for file in operation.files for location in file.locations)
            self._remove(location for file in operation.superseded for location in file.locations)
            raise
        self._remove(location for file in operation.superseded for location in file.locations)
        return snapshot

    def _remove(self, locations: Iterable[str]) -> None:
        with suppress(SkerryError):
            self.state.storage.delete(list(locations))


def _book(state: PaimonState, layout: WriteLayout) -> BucketBook:
    """The buckets of a state; where no writer asks for any, none are looked up."""
    return BucketBook.of(state) if layout.has_keys or layout.options.bucket > 0 else BucketBook()


def _indexes(state: PaimonState, layout: WriteLayout) -> DynamicBuckets | None:
    if layout.has_keys and layout.options.bucket == -1:
        return DynamicBuckets.of(state, index_entries(state))
    return None
