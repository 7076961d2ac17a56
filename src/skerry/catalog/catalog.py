"""A catalog: named tables in namespaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from skerry.arguments import check_list, check_text, checked_path, checked_texts
from skerry.catalog.iceberg_tables import IcebergTables
from skerry.catalog.names import TableName, check_choice, check_new_name, dotted, identifier_of
from skerry.catalog.paimon_tables import PaimonTables
from skerry.catalog.queryable_catalog import QueryableCatalog
from skerry.catalog.stores import NewTable, TableStore, arrow_schema
from skerry.catalog.transaction import Transactional
from skerry.errors import AlreadyExistsError, CommitUnknownError, NotFoundError, SkerryError, UnsupportedError
from skerry.storage import move_of, redact
from skerry.table.arguments import ColumnSource
from skerry.table.rows.schema import nearest
from skerry.table.table import Table
from skerry.table.work.progress import Progress, progress_callback
from skerry.table.work.tasks import Executor

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog as PyIcebergCatalog

    from skerry.catalog.paimon_rest import RestPaimonTables
    from skerry.catalog.sketch_index import SketchIndex
    from skerry.table.statistics.joinable import JoinableColumns
    from skerry.table.summaries import MigrationSummary, RelocationSummary

__all__ = ["Catalog"]

ICEBERG, PAIMON = FORMATS = ("iceberg", "paimon")
_NAMES = {ICEBERG: "an Iceberg", PAIMON: "a Paimon"}


class Catalog(QueryableCatalog, Transactional):
    """Named tables in namespaces, as `skerry.connect` opens them.

    Iceberg tables are registered in the underlying catalog; Paimon tables are the folders `<namespace>.db/<table>` of
    the warehouse. A name is unique across both formats.

    Args:
        name: The catalog's name; Spark must configure the same catalog under the same name.
        properties: What it was connected with.
        iceberg: Its Iceberg tables; None if it cannot hold any.
        paimon: Its Paimon tables; None if it has no warehouse folder.
    """

    def __init__(
        self,
        name: str,
        properties: Mapping[str, str],
        iceberg: IcebergTables | None,
        paimon: PaimonTables | RestPaimonTables | None,
    ) -> None:
        self._name = name
        self._properties = dict(properties)
        self._iceberg = iceberg
        self._paimon = paimon
        self._opening: Callable[[], Callable[[], Catalog]] | None = None

    @property
    def name(self) -> str:
        """The catalog's name; Spark must configure the same catalog under the same name."""
        return self._name

    @property
    def properties(self) -> dict[str, str]:
        """The catalog's properties; may hold credentials."""
        return dict(self._properties)

    @property
    def iceberg_catalog(self) -> PyIcebergCatalog:
        """PyIceberg's object for the same catalog, for operations that only PyIceberg has; loaded on first use.

        Raises:
            UnsupportedError: The catalog cannot hold Iceberg tables.
        """
        store: Any = self._store(ICEBERG)
        return store.pyiceberg()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what it was opened with, to be opened again; a secret is refused (`UnsupportedError`)."""
        if self._opening is None:
            raise UnsupportedError("only a catalog that `connect` has opened is pickled")
        return self._opening(), ()

    def __repr__(self) -> str:
        uri = self._properties.get("uri") or self._properties.get("warehouse")
        return f"Catalog({self.name!r}{f', uri={redact(uri)!r}' if uri else ''})"

    def _repr_html_(self) -> str:
        from skerry.catalog.display import catalog_html

        return catalog_html(self.name, self.list_tables())

    @cached_property
    def _sketch_index(self) -> SketchIndex:
        from skerry.catalog.sketch_index import SketchIndex

        return SketchIndex(self._stores)

    @property
    def _stores(self) -> list[TableStore]:
        return [store for store in (self._iceberg, self._paimon) if store is not None]

    def _store(self, format: str) -> TableStore:
        """The tables of one format."""
        check_choice("format", format, FORMATS)
        store: TableStore | None = self._iceberg if format == ICEBERG else self._paimon
        if store is not None:
            return store
        if format == ICEBERG:
            raise UnsupportedError(
                f"Iceberg tables in {redact(self._properties['warehouse'])} need a catalog to coordinate commits: "
                "connect to its URI (rest+https://…, postgresql://…) or to a configured name, with this location as "
                "warehouse="
            )
        raise UnsupportedError("Paimon tables need a warehouse folder: connect with warehouse='…'")

    def _store_of(self, name: str) -> TableStore | None:
        """Where a table is; None if there is none of that name."""
        return next((store for store in self._stores if store.exists(name)), None)

    def _known(self, name: str) -> TableStore:
        if (store := self._store_of(name)) is None:
            raise NotFoundError(f"no table {name!r}{nearest(name, self.list_tables())}")
        return store

    def list_tables(self, namespace: str | None = None) -> list[str]:
        """Names of all tables, or of those in one namespace, in alphabetical order.

        Raises:
            NotFoundError: There is no such namespace.
        """
        namespaces = self._namespaces(namespace)
        return sorted({table for store in self._stores for name in namespaces for table in store.list_tables(name)})

    def create_table(  # noqa: PLR0913  options, by name
        self,
        name: TableName,
        schema: ColumnSource,
        *,
        if_not_exists: bool = False,
        format: str = ICEBERG,
        file_format: str = "parquet",
        partition_by: Sequence[str] | None = (),
        sort_by: Sequence[str] | None = (),
        primary_key: Sequence[str] | None = (),
        properties: Mapping[str, str] | None = None,
        location: str | None = None,
        format_version: int | None = None,
    ) -> Table:
        """Create a table, and its namespace if it does not exist.

        Args:
            name: `namespace.table`.
            schema: Arrow schema, or data that has one. Field ids (`PARQUET:field_id`) are kept if every field has one,
                otherwise assigned.
            if_not_exists: Whether a table of that name is returned as it is, instead of an error.
            format: `iceberg` or `paimon`.
            file_format: Format of new data files: `parquet`, `orc`, `avro`, or `amudai`, which no other engine reads
                (table property `write.format.default`, Paimon's option `file.format`).
            partition_by: Transforms: `col`, `year(ts)`, `month(ts)`, `day(ts)`, `hour(ts)`, `bucket(16, id)`,
                `truncate(10, s)`, `void(x)`. Paimon supports `col`, and one `bucket(16, id, …)` for its buckets.
            sort_by: Order of the rows in each file: `col`, `col desc`, `col asc nulls last`, transforms too (Iceberg).
            primary_key: Columns that identify a row: Iceberg's identifier fields, which nothing enforces; Paimon's
                primary key, by which rows replace each other.
            properties: Table properties; ours begin with `skerry.`.
            location: The table's folder; chosen by the catalog if None.
            format_version: Iceberg format version, 1 to 3; 2 if None.

        Raises:
            AlreadyExistsError: There is a table of that name.
            CommitUnknownError: It may or may not have been done, or was done and the table cannot be loaded.
            SchemaError: A column, type, transform or property does not fit, or there are no columns.
            UnsupportedError: The format is unknown, or does not support an argument.
        """
        store = self._store(format)
        name = dotted(name)
        check_new_name(name)
        if if_not_exists and self._store_of(name) is not None:
            return self.load_table(name)
        for option, texts in (("partition_by", partition_by), ("sort_by", sort_by), ("primary_key", primary_key)):
            check_list(option, texts)
        other = self._store_of(name)
        if other not in (None, store):
            raise AlreadyExistsError(f"table {name!r} already exists")
        new = NewTable(
            schema=arrow_schema(schema),
            file_format=file_format,
            partition_by=partition_by or (),
            sort_by=sort_by or (),
            primary_key=primary_key or (),
            properties=checked_texts("properties", properties),
            location=location,
            format_version=format_version,
        )
        store.create(name, new)
        return self._loaded(name, "created")

    def migrate(
        self,
        name: str,
        folder: str | None = None,
        *,
        format: str = ICEBERG,
        partition_by: Sequence[str] | None = None,
        properties: Mapping[str, str] | None = None,
        format_version: int | None = None,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> MigrationSummary:
        """Turn a folder of Parquet files into a table, or convert a table to the other format, in place.

        Nothing is rewritten, nothing is moved.

        **A folder** becomes an Iceberg table. It has the columns of all files. Columns named by folders
        (`day=2024-01-01/`) become partitions: integers, dates or text, depending on all of their values, and the text
        `__HIVE_DEFAULT_PARTITION__` is null. Every file is checked and sketched as in `Table.add_files`. From then on
        the files belong to the table, and may be deleted when their snapshots expire; no other program may write to the
        folder.

        **A table** keeps its name, rows, field ids and statistics of distinct values; only its newest snapshot is
        migrated. Iceberg tables become Paimon append tables and vice versa; position deletes become deletion vectors
        and vice versa. What the other format does not support, or would read differently from the same files, is
        refused by name. Writers must have stopped: if one commits in the meantime, the migration fails and the table is
        unchanged.

        Args:
            name: `namespace.table`.
            folder: The folder that becomes the table; None if `name` is a table already.
            format: The new format: `iceberg` or `paimon`.
            partition_by: The new Paimon table's partition keys: `[]` for none, since Paimon has no transforms; those of
                the Iceberg table if None.
            properties: Table properties.
            format_version: Iceberg format version: 1 to 3 for a folder, 2 or 3 for a Paimon table; 2 if None.
            dry_run: Only report what the table would be.
            executor: Runs the tasks that inspect files; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Raises:
            AlreadyExistsError: There is a table of that name, or it has that format already.
            CommitUnknownError: The outcome is unknown; nothing was cleaned up, and the message says what to do.
            ConflictError: Another writer committed in the meantime; the table is unchanged.
            FormatError: A file is corrupt.
            NotFoundError: There are no files, or no such table.
            SchemaError: Files have incompatible columns, or their folders are named differently.
            UnsupportedError: The folder is a table already, or contains files that are not Parquet; or the table uses
                something that the other format does not support.
        """
        if folder is not None:
            check_new_name(name)
            if format != ICEBERG:
                raise UnsupportedError(
                    "a folder can only become an Iceberg table; migrate that table to Paimon afterwards"
                )
            if partition_by is not None:
                raise UnsupportedError(
                    "a folder is partitioned by the columns that its subfolders name: leave out partition_by="
                )
            from skerry.catalog.migrating import migrate_folder

            with progress_callback(progress, "migrate", str(folder)) as callback:
                return migrate_folder(self, name, folder, properties, format_version, dry_run, executor, callback)
        iceberg, paimon = self._store(ICEBERG), self._store(PAIMON)
        check_choice("format", format, FORMATS)
        if self._known(name) is self._store(format):
            raise AlreadyExistsError(f"table {name!r} is {_NAMES[format]} table already")
        from skerry.catalog.table_migrating import TableMigration

        assert isinstance(iceberg, IcebergTables)
        assert isinstance(paimon, PaimonTables)
        with progress_callback(progress, "migrate", self.load_table(name).location) as callback:
            migration = TableMigration(
                iceberg, paimon, partition_by, properties, format_version, dry_run, executor, callback
            )
            return migration.to_paimon(name) if format == PAIMON else migration.to_iceberg(name)

    def load_table(self, name: TableName) -> Table:
        """Load a table.

        Raises:
            NotFoundError: There is no table of that name; the message suggests the nearest.
        """
        name = dotted(name)
        identifier_of(name)
        for store in self._stores:
            try:
                return store.load(name, self)
            except NotFoundError as error:
                if error.location is not None:  # of a file
                    raise
        raise NotFoundError(f"no table {name!r}{nearest(name, self.list_tables())}")

    def _loaded(self, name: str, done: str) -> Table:
        """Load a table after a change to it: an error must not suggest that nothing has happened."""
        try:
            return self.load_table(name)
        except SkerryError as error:
            raise CommitUnknownError(f"table {name!r} was {done}, but cannot be loaded: {error}") from error

    def table_exists(self, name: TableName) -> bool:
        """Whether there is a table of that name."""
        name = dotted(name)
        identifier_of(name)
        return self._store_of(name) is not None

    def rename_table(self, name: TableName, to: TableName) -> Table:
        """Rename a table. Files of an Iceberg table stay where they are, a Paimon table's folder moves.

        Raises:
            NotFoundError: There is no such table, or no such namespace to move to.
            CommitUnknownError: It may or may not have been done, or was done and the table cannot be loaded.
            AlreadyExistsError: The new name is taken.
            UnsupportedError: A Paimon table is on a store that cannot move folders atomically.
        """
        name, to = dotted(name), dotted(to)
        check_new_name(to)
        if self._store_of(to) is not None:
            raise AlreadyExistsError(f"table {to!r} already exists")
        store = self._known(name)
        namespace = to.rpartition(".")[0]
        if namespace in self.list_namespaces() and namespace not in store.list_namespaces():
            store.create_namespace(namespace, {})  # of the other format only, so far
        store.rename(name, to)
        return self._loaded(to, "renamed")

    def drop_table(self, name: TableName, *, purge: bool = False) -> None:
        """Remove a table from the catalog.

        Args:
            name: `namespace.table`.
            purge: Whether to delete its files too: of an Iceberg table the files below its location that its metadata
                refers to; nothing is dropped if some metadata cannot be read, or if the table property `gc.enabled` is
                false. A Paimon table is its folder, and can only be dropped with it: again if that was interrupted.

        Raises:
            NotFoundError: There is no such table, or a metadata file is missing.
            FormatError: Metadata is corrupt.
            SchemaError: The table may share files with other tables, or `purge` is false for a Paimon table.
        """
        name = dotted(name)
        store = self._store_of(name)
        if store is None and purge and self._paimon is not None and self._paimon.has_remains(name):
            store = self._paimon
        (store or self._known(name)).drop(name, purge=purge)

    def register_table(
        self,
        name: str,
        metadata_path: str,
        *,
        prefixes: Mapping[str, str] | None = None,
        replaces: str | None = None,
    ) -> Table:
        """Register an existing Iceberg table by its metadata file.

        Args:
            name: `namespace.table`.
            metadata_path: Location of its newest `…metadata.json`.
            prefixes: Folders that the metadata names, with the folders in which the files are: for a table whose files
                were copied or moved by another program. Its metadata is rewritten beside the old, in the new folder,
                and nothing else is written; data files are not touched. Files in no such folder keep their names.
            replaces: The metadata file of the table that has the name. That table becomes this one if it is still at
                that state, in one step; its files stay.

        Raises:
            AlreadyExistsError: There is a table of that name.
            CommitUnknownError: It may or may not have been done, or was done and the table cannot be loaded.
            ConflictError: The table of that name is at another state than `replaces` says.
            FormatError: The file is not table metadata; nothing was registered.
            NotFoundError: There is no such file.
            UnsupportedError: Its format version is not supported, or it is encrypted and files have new folders; or the
                catalog cannot exchange the metadata file of a table.
        """
        store: Any = self._store(ICEBERG)
        check_new_name(name)
        check_text("replaces", replaces)
        if self._paimon is not None and self._paimon.exists(name):
            raise AlreadyExistsError(f"table {name!r} already exists")
        path = checked_path("metadata_path", metadata_path)
        store.register(name, path, prefixes=checked_texts("prefixes", prefixes), replaces=replaces)
        return self._loaded(name, "registered")

    def location_of(self, name: str, *, format: str = ICEBERG) -> str:
        """The folder that a new table of that name gets.

        Args:
            name: `namespace.table`.
            format: `iceberg` or `paimon`.

        Raises:
            UnsupportedError: The catalog's server chooses it when the table is created.
        """
        check_new_name(name)
        return self._store(format).location(name)

    @property
    def moved_from(self) -> str | None:
        """The folder that the warehouse was created in, if it was copied or moved since; see `relocate`."""
        move = None if self._iceberg is None else move_of(self._iceberg.catalog.properties)
        return None if move is None else move.sources[0]

    def relocate(self, *, dry_run: bool = False, progress: Progress = None) -> RelocationSummary:
        """Adapt the metadata of a warehouse folder that was copied or moved to its new location.

        Iceberg names files by absolute locations. Until it is relocated, a warehouse that was copied or moved can be
        read, from its own files; writes and deletes in the old location are refused.

        New metadata is written beside the old, then the catalog is switched over in one transaction. Data files, ids,
        history and statistics do not change, and the old location is not touched. Replaced files stay in the folder
        until `remove_orphans`. After an interruption, call it again. Tables and files outside the old location keep
        their locations. Load tables again afterwards.

        Args:
            dry_run: Read everything, but only report what would be rewritten.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Returns:
            What was rewritten, by table; without a source if the warehouse is where it was created.

        Raises:
            CatalogLockedError: Another process has locked the catalog's database; nothing was switched.
            ConflictError: Another process changed the catalog in the meantime; nothing was switched.
            FormatError: Metadata is corrupt; nothing was switched.
            NotFoundError: A file is missing; nothing was switched.
            UnsupportedError: This is not the catalog of a folder; or it shares files with the original.
        """
        from skerry.catalog.relocating import relocatable, relocate_catalog  # rarely needed

        catalog = relocatable(self._iceberg)
        assert self._paimon is None or isinstance(self._paimon, PaimonTables)
        with progress_callback(progress, "relocate") as callback:
            summary = relocate_catalog(catalog, self._paimon, dry_run=dry_run, progress=callback)
        if not dry_run:
            self._properties = dict(catalog.properties)
            if self._paimon is not None:
                self._paimon = PaimonTables(self._paimon.warehouse, self._properties)
        return summary

    def sql(self, sql: str, *, read_only: bool = False) -> pa.Table:
        """Run a statement: a query on DuckDB, or a change of tables by the methods that this class and `Table` have.

        Tables are read by our scans, with the joins in the order that `explain` shows.

        Args:
            sql: A query in DuckDB's dialect over tables and views named `namespace.table` (also `… FOR VERSION AS OF …`
                or `FOR TIMESTAMP AS OF …`) or `"namespace.table$files"`; or a change, which is one commit.
            read_only: Whether everything but queries, SHOW and DESCRIBE is refused: for texts of others.

        Returns:
            The result as Arrow; of a change a row that says what was done.

        Raises:
            MissingDependencyError: DuckDB is not installed (`skerry[duckdb]`).
            SkerryError: DuckDB refused the query; also as `explain`, or as the method that makes the change.
        """
        from skerry.catalog.queries.statements import run_statement

        return run_statement(self, sql, read_only=read_only)

    def joinable(
        self, table: str, column: str, *, min_containment: float = 0.1, limit: int | None = None
    ) -> JoinableColumns:
        """Find the columns of all tables that could be joined with a column, from published sketches alone.

        No data file is read. Only fresh sketches are compared, and only columns whose equal values have equal hashes:
        `int` is never compared with `long`.

        Args:
            table: `namespace.table`.
            column: Dotted name of a primitive column.
            min_containment: Leave out columns whose larger containment, of either in the other, is below this.
            limit: At most this many columns; all if None.

        Returns:
            The columns found, those first that contain most of its values; and what was left out, and why.

        Raises:
            NotFoundError: There is no such table or column, or the column has no fresh sketch.
        """
        from skerry.table.statistics.joinable import find_joinable

        names = self.list_tables()
        if table not in names:
            raise NotFoundError(f"no table {table!r}{nearest(table, names)}")
        tables, broken = self._sketch_index.read(names)
        if (reason := next((without.reason for without in broken if without.table == table), None)) is not None:
            raise NotFoundError(f"table {table!r} cannot be read: {reason}")
        return find_joinable(table, column, tables, min_containment=min_containment, limit=limit, not_compared=broken)
