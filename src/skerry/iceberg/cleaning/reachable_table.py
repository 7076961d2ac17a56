"""The reachable files of an Iceberg table: of its newest state, and of states found only in its folder.

Spec: Iceberg spec, Table Metadata Fields, Snapshots, Table Statistics, Partition Statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from skerry.errors import NotFoundError
from skerry.iceberg.cleaning.expiry import refuse_kept_files
from skerry.iceberg.cleaning.reachability import FileReader, metadata_files, statistics_files, thinned_statistics
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.metadata.stray_metadata import StrayMetadata, possible_states, read_stray, read_table_metadata
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.storage import Storage, file_key, join, name, parent
from skerry.table.indexes.registry import index_files, piece_names
from skerry.table.reachability import FileKey, TableKind
from skerry.table.work.tasks import Executor, FileTask

__all__ = ["ReachableIcebergTable"]

_VERSION_HINT = "version-hint.text"


class ReachableIcebergTable:
    """Determines which files an Iceberg table needs; see `skerry.table.reachability.ReachableTable`.

    Manifest lists and manifests are read only once.

    Args:
        table: The table.
        executor: Runs the tasks that read manifests.
    """

    kind = TableKind.ICEBERG
    kinds = frozenset({TableKind.ICEBERG})

    def __init__(self, table: IcebergHandle, executor: Executor) -> None:
        self._table = table
        self._executor = executor
        self._reader = FileReader(executor, table.state.storage)
        self._strays: dict[str, StrayMetadata] = {}

    @property
    def name(self) -> str:
        """Namespace and table name."""
        return self._table.state.name

    @property
    def identity(self) -> str:
        """The table's uuid."""
        return str(self._table.state.metadata.table_uuid)

    @property
    def location(self) -> str:
        """The table's folder."""
        return str(self._table.state.metadata.location)

    @property
    def storage(self) -> Storage:
        """Access to its files."""
        return self._table.state.storage

    @property
    def folders(self) -> tuple[str, ...]:
        """The table's folder, and the present and earlier folders of its metadata files."""
        state = self._table.state
        holding = {state.metadata_folder, *map(parent, metadata_files(state))}
        tables = (parent(folder) if name(folder) == "metadata" else folder for folder in holding)
        return tuple(dict.fromkeys((self.location, *tables)))

    def newest(self) -> str:
        """Load the newest state; its metadata file names it.

        Raises:
            NotFoundError: The table is gone, or another one has taken its name.
            SchemaError: The table property `gc.enabled` is false.
        """
        state = self._table.refresh()
        refuse_kept_files(state)
        return state.metadata_location

    def reached(self, markers: Sequence[str]) -> Mapping[FileKey, str]:
        """The files that the last loaded state reaches, and those of states found only in the folder.

        A state with missing parts is no longer in use and reaches nothing.

        Args:
            markers: Metadata files that were found.

        Raises:
            FormatError: Metadata is corrupt.
            NotFoundError: Metadata of the newest state is missing.
        """
        state = self._table.state
        own = metadata_files(state)
        found = self._of(state.metadata)
        for location in (*own, join(state.metadata_folder, _VERSION_HINT)):
            found[file_key(location)] = location
        found |= {file_key(file.location): file.location for file in thinned_statistics(state)}
        known = set(map(file_key, own))
        strays = self._look_at([marker for marker in markers if file_key(marker) not in known])
        states = possible_states(strays, state.metadata.table_uuid, state.metadata.last_updated_ms)
        for location in states:
            try:
                metadata = read_table_metadata(state.storage, location)
                of_state = self._of(metadata)
            except NotFoundError:
                continue
            logged = (entry.metadata_file for entry in metadata.metadata_log)
            found |= of_state | {file_key(one): one for one in (location, *logged)}
        return found

    def _of(self, metadata: TableMetadata) -> dict[FileKey, str]:
        """The files that all snapshots reach, with or without a branch or tag, and the statistics files."""
        keys = self.storage.keys
        storage = self.storage if keys is None else self.storage.with_keys(keys.of(metadata))
        lists, manifests = self._reader.lists(metadata.snapshots, storage)
        found = self._reader.locations(manifests)
        found |= {key: file.location for key, file in lists.items()}
        found |= {key: manifest.manifest_path for key, manifest in manifests.items()}
        indexes = index_files(self.storage, metadata.location, piece_names(metadata.properties), found.keys())
        found |= {file_key(location): location for location in [*indexes]}
        return found | {file_key(file.location): file.location for _, file in statistics_files(metadata)}

    def _look_at(self, locations: Iterable[str]) -> list[StrayMetadata]:
        """The states in metadata files; a file that cannot be parsed may be incomplete, and is read again."""
        wanted = list(locations)
        new = [location for location in wanted if location not in self._strays]
        tasks = [FileTask(location, self.storage) for location in new]
        for location, stray in zip(new, self._executor.map(read_stray, tasks), strict=True):
            if stray is not None:
                self._strays[location] = stray
        return [self._strays[location] for location in wanted if location in self._strays]
