"""The handle of an Iceberg table that jobs use: its newest known state, and commits to it.

What commits loads when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.loading import load_state
from skerry.iceberg.metadata.schema import Schema
from skerry.iceberg.metadata.state import MAIN, TableState
from skerry.iceberg.metadata.transforms import IdentityTransform, Transform
from skerry.table.commit import Operation, RetryPolicy, commit

if TYPE_CHECKING:
    from skerry.iceberg.commit import IcebergTarget
    from skerry.iceberg.operations import MetadataChange, SnapshotChange
    from skerry.iceberg.planning.scan_server import ScanServer
    from skerry.iceberg.writing.layout import FileLayout
    from skerry.table.statistics.table_sample import TableSample
    from skerry.table.statistics.written_file import WrittenFile
    from skerry.theta import ThetaSketch

__all__ = ["IcebergHandle"]


class IcebergHandle:
    """One Iceberg table of a catalog.

    Args:
        catalog: The catalog that holds it.
        identifier: Namespace parts and table name.
        state: A state loaded before; loaded now if None.

    Raises:
        NotFoundError: The catalog has no such table.
    """

    def __init__(self, catalog: IcebergCatalog, identifier: tuple[str, ...], state: TableState | None = None) -> None:
        self.catalog = catalog
        self.identifier = identifier
        self.state = state or load_state(catalog, identifier)

    def refresh(self) -> TableState:
        """Load the newest state.

        Raises:
            NotFoundError: The table is gone, or another table has its name.
        """
        self.state = self._target().load()
        return self.state

    def commit(self, operation: Operation[TableState, SnapshotChange | MetadataChange]) -> TableState:
        """Commit an operation through the one commit loop, retrying as the table's properties say.

        Raises:
            ConflictError: Other writers won every race, or the operation does not fit what they did.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up.
        """
        from skerry.table.indexes.definitions import INDEX_PREFIX

        if not any(name.startswith(INDEX_PREFIX) for name in self.state.properties):
            return self._commit(operation)
        from skerry.iceberg.indexing import commit_with_indexes

        return commit_with_indexes(self.state, operation, self._commit)

    def _commit(self, operation: Operation[TableState, SnapshotChange | MetadataChange]) -> TableState:
        return self.commit_retrying(operation, lambda base: RetryPolicy.from_properties(base.properties))

    def commit_retrying(
        self,
        operation: Operation[TableState, SnapshotChange | MetadataChange],
        retry: Callable[[TableState], RetryPolicy],
    ) -> TableState:
        """Commit an operation that decides itself, from the first base state, how to retry; else as `commit`."""
        self.state = commit(operation, self._target(), retry)
        return self.state

    def scan_server(self) -> ScanServer | None:
        """The server that plans scans of this table for users; None if clients do.

        Raises:
            UnsupportedError: The catalog asks for something else.
        """
        return self.catalog.scan_server(self.identifier, self.state)

    def _target(self) -> IcebergTarget:
        from skerry.iceberg.commit import IcebergTarget

        return IcebergTarget(self.catalog, self.identifier, self._loaded, self.state.metadata.current_schema_id)

    @property
    def _loaded(self) -> TableState:
        """The newest state that came from the catalog."""
        return self.state

    @property
    def partition_by(self) -> list[str]:
        """The default partition spec, as text for `skerry.iceberg.partitioning.transforms.partition_spec`."""
        schema = self.state.metadata.schema()
        return [
            _term(schema, field.transform, field.sources)
            for field in self.state.spec.fields
            if schema.find_column_name(field.source_id) is not None  # else a void field of version 1
        ]

    @property
    def sort_by(self) -> list[str]:
        """The default sort order, as text for `skerry.iceberg.partitioning.transforms.sort_order`."""
        schema = self.state.metadata.schema()
        return [
            " ".join(
                (
                    _term(schema, field.transform, field.sources),
                    field.direction.value,
                    field.null_order.value.replace("-", " "),
                )
            )
            for field in self.state.metadata.sort_order().fields
        ]

    def layout(self, *, ref: str = MAIN, lineage: bool = False) -> FileLayout:
        """The layout of new files of this table; see `skerry.iceberg.writing.layout.file_layout`."""
        from skerry.iceberg.writing.layout import file_layout

        return file_layout(self.state, ref=ref, lineage=lineage)

    def append(
        self,
        files: Iterable[WrittenFile],
        *,
        ref: str = MAIN,
        properties: Mapping[str, str] | None = None,
        staged: bool = False,
    ) -> TableState:
        """Publish written files, and the table's statistics with them, as one snapshot, staged if requested."""
        from skerry.iceberg.operations import AppendFiles

        return self.commit(AppendFiles.of(files, ref=ref, properties=properties, staged=staged))

    def publish_sketches(
        self, snapshot_id: int, sketches: Mapping[int, ThetaSketch], sample: TableSample | None = None
    ) -> TableState:
        """Register sketches of all rows of a snapshot, and the samples that they come from."""
        from skerry.iceberg.operations import PublishSketches

        return self.commit(PublishSketches(snapshot_id, sketches, sample))


def _term(schema: Schema, transform: Transform, sources: Sequence[int]) -> str:
    """`bucket(16, id)` for `bucket[16]` of a column, `id` for its identity."""
    column = ", ".join(str(schema.find_column_name(number)) for number in sources)
    if isinstance(transform, IdentityTransform):
        return column
    name, bracket, width = str(transform).rstrip("]").partition("[")
    return f"{name}({width}, {column})" if bracket else f"{name}({column})"
