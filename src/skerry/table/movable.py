"""What copies a table of any format to another place, or moves it there."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

from skerry.arguments import check_instance, check_whole_number, checked_path, checked_texts
from skerry.errors import AlreadyExistsError, SchemaError, UnsupportedError
from skerry.storage import MOVED_FROM, MOVED_TO, READ_ONLY, Storage, absolute, file_key
from skerry.table.configurable import ConfigurableTable
from skerry.table.copying import CopyRequest, CopySummary
from skerry.table.readable import ReadableTable
from skerry.table.work.progress import Progress, progress_callback
from skerry.table.work.tasks import Executor, ThreadExecutor

__all__ = ["CopyCatalog", "MovableTable"]

_COPY, _KEEP, _MOVE = "copy", "keep", "move"


class CopyCatalog(Protocol):
    """What a copy needs of the catalog that it is registered in; `skerry.catalog.Catalog` is one."""

    @property
    def properties(self) -> dict[str, str]:
        """The catalog's properties; may hold credentials."""
        ...

    def table_exists(self, name: str) -> bool:
        """Whether there is a table of that name."""
        ...

    def load_table(self, name: str) -> ReadableTable:
        """Load a table."""
        ...

    def location_of(self, name: str, *, format: str) -> str:
        """The folder of a new table of that name."""
        ...

    def register_table(self, name: str, metadata_path: str, *, replaces: str | None) -> ReadableTable:
        """Register an Iceberg table by its metadata file."""
        ...


class MovableTable(ConfigurableTable):
    """A table that can be copied to another place or moved there."""

    _has_own_folder = False
    """Whether a catalog's table of a name is a folder, and needs no registration."""

    def copy_to(
        self,
        location: str | os.PathLike[str] | None = None,
        *,
        catalog: CopyCatalog | None = None,
        name: str | None = None,
        data: Literal["copy", "keep"] = "copy",
        prefixes: Mapping[str, str] | None = None,
        from_snapshot: int | None = None,
        options: Mapping[str, str] | None = None,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> CopySummary:
        """Copy the table to another folder or store, with its history, branches, tags and statistics.

        One state is copied, which the result names; what others commit meanwhile is not in the copy. Files that are
        complete at their place are not copied again: a copy that was interrupted is simply made again, and one that is
        made again later writes only what is new. Nothing of the original is changed, and nothing is deleted.

        Example:
            table.copy_to("s3://replica/events", catalog=skerry.connect("replica"), name="shop.events")

        Args:
            location: The folder of the copy; if None, the one that the catalog gives a new table of that name.
            catalog: Where the copy gets its name; the table's own catalog if None.
            name: `namespace.table`, once the copy is complete. If the table of that name is an earlier copy, and
                unchanged, it becomes this one. If None, the copy is not registered: `skerry.open_table` opens it, and
                `Catalog.register_table` takes its `metadata_location`.
            data: `copy`, or `keep` to write only metadata, whose data files stay where they are. Then the copy never
                deletes them (`gc.enabled=false`), and can be read as long as the original has them.
            prefixes: Where files outside the table's folder go, by folder; the same folder twice for files that stay.
                Without it such files are refused.
            from_snapshot: A snapshot that was copied there before: its files and those of earlier snapshots must be
                there. With `dry_run` the place of the copy is not looked at, and the result lists what is new since.
            options: Storage options of the new place; those of the catalog if None, or of the table.
            dry_run: Read metadata, and only report which files would be written.
            executor: Where files are copied; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Returns:
            The copy, and a list of its files.

        Raises:
            AlreadyExistsError: Other files, or another table, are at that place.
            ConflictError: The table of that name is not an unchanged copy of this one.
            FormatError: Metadata is corrupt.
            NotFoundError: A file is missing: expired in the meantime, or not copied before as `from_snapshot` says.
            SchemaError: An argument does not fit; the copy overlaps the table.
            UnsupportedError: Files are outside the table's folder; or the format lacks what is asked for.
        """
        check_data(data, (_COPY, _KEEP))
        check_whole_number("from_snapshot", from_snapshot, 0)
        owner = self._owner(catalog, name)
        replaced = None
        if owner is not None and name is not None:
            replaced, location = self._place_in(owner, name, location)
        if location is None:
            if owner is None or name is None:
                raise SchemaError(
                    "location= is missing: without name= there is no catalog that gives the copy a folder"
                )
            location = owner.location_of(name, format=self.format)
        with progress_callback(progress, "copy", self.location) as callback:
            request = CopyRequest(
                place_of(location),
                self._target_storage(owner, options),
                _folders(prefixes),
                keep_data=data == _KEEP,
                shares_data=data == _KEEP,
                from_snapshot=from_snapshot,
                replaced=replaced,
                dry_run=dry_run,
                executor=executor or ThreadExecutor(),
                progress=callback,
            )
            done = self._copy_to(request, owner, name)
        if owner is None or name is None or dry_run or done.metadata_location in (None, replaced):
            return done
        owner.register_table(name, str(done.metadata_location), replaces=replaced)
        return done

    def relocate(
        self,
        to: str | os.PathLike[str],
        *,
        data: Literal["move", "copy", "keep"] = "move",
        prefixes: Mapping[str, str] | None = None,
        dry_run: bool = False,
        executor: Executor | None = None,
        progress: Progress = None,
    ) -> CopySummary:
        """Move the table to another folder or store: it is copied there, and its catalog then names the copy.

        The name, ids, history and statistics stay. Until the copy is complete the table is where it was; only then are
        the old files deleted. If another writer commits in the meantime, what is new is copied, too. Stop writers
        before nevertheless: a file that one of them writes into the old folder before it learns of the new one is
        outside the table's folder once it is committed. A relocation that failed is made again.

        Args:
            to: The new folder.
            data: `move`; `copy` to leave all old files where they are; `keep` to move only metadata, while data files
                stay.
            prefixes: As in `copy_to`.
            dry_run: Read metadata, and only report which files would be written.
            executor: Where files are copied; threads of this process by default.
            progress: True for a bar, or a callable that gets `JobProgress` records.

        Returns:
            The files at the new location, and how many were deleted at the old one.

        Raises:
            AlreadyExistsError: Other files, or another table, are at that place.
            CommitUnknownError: The catalog may or may not name the new location; nothing was deleted.
            ConflictError: Other writers were faster every time; nothing was changed.
            FormatError: Metadata is corrupt; nothing was changed.
            NotFoundError: A file is missing; nothing was changed.
            SchemaError: An argument does not fit; the folders overlap; or `gc.enabled` is false.
            UnsupportedError: The catalog cannot exchange a table's metadata file; files are outside the table's folder;
                or it is a Paimon table, which is its folder.
        """
        check_data(data, (_MOVE, _COPY, _KEEP))
        with progress_callback(progress, "relocate", self.location) as callback:
            request = CopyRequest(
                place_of(to),
                self._target_storage(None, None),
                _folders(prefixes),
                keep_data=data == _KEEP,
                shares_data=False,
                from_snapshot=None,
                replaced=None,
                dry_run=dry_run,
                executor=executor or ThreadExecutor(),
                progress=callback,
            )
            return self._relocate(request, delete=data == _MOVE)

    def _owner(self, catalog: CopyCatalog | None, name: str | None) -> CopyCatalog | None:
        """The catalog in which a copy gets a name; None if it gets none."""
        if name is None:
            if catalog is not None:
                raise SchemaError("name= is missing: the name that the copy gets in the catalog")
            return None
        check_instance("name", name, str, "a string")
        return catalog if catalog is not None else self._own_catalog()

    def _place_in(
        self, owner: CopyCatalog, name: str, location: str | os.PathLike[str] | None
    ) -> tuple[str | None, str | os.PathLike[str]]:
        """The state of the table that has the name, if it is replaced; and the folder of the copy."""
        replaced = None
        if owner.table_exists(name):
            other = owner.load_table(name)
            if other.format != self.format:
                raise AlreadyExistsError(f"table {name!r} already exists, and is one of {other.format}")
            replaced = other.version
            location = other.location if location is None else location
        if self._has_own_folder:
            folder = owner.location_of(name, format=self.format)
            if location is not None and file_key(place_of(location)) != file_key(folder):
                raise SchemaError(f"the name of a Paimon table determines its folder: {name!r} is {folder}")
            return None, folder
        return replaced, owner.location_of(name, format=self.format) if location is None else location

    def _target_storage(self, owner: CopyCatalog | None, options: Mapping[str, str] | None) -> Storage:
        """Access to the place of a copy."""
        if options is not None:
            return Storage(checked_texts("options", options))
        found = self.storage.options if owner is None else owner.properties
        return Storage({key: text for key, text in found.items() if key not in (MOVED_FROM, MOVED_TO, READ_ONLY)})

    # ---- what table formats implement ----

    @abstractmethod
    def _own_catalog(self) -> CopyCatalog: ...

    @abstractmethod
    def _copy_to(self, request: CopyRequest, owner: CopyCatalog | None, name: str | None) -> CopySummary: ...

    def _relocate(self, request: CopyRequest, *, delete: bool) -> CopySummary:
        raise UnsupportedError(
            "a Paimon table is its folder, and nothing could keep writers from it while its name changes hands: stop "
            "them, copy_to(name=…) and then drop_table(…, purge=True)",
            location=self.location,
        )


def check_data(data: str, choices: tuple[str, ...]) -> None:
    """Refuse what is none of some words.

    Raises:
        SchemaError: It is none of them.
    """
    if data not in choices:
        raise SchemaError(f"data must be one of {', '.join(choices)}, found {data!r}")


def place_of(location: str | os.PathLike[str]) -> str:
    """A folder as tables name it: absolute, a URL, without a slash at the end."""
    text = checked_path("location", location)
    if not text:
        raise SchemaError("the location of the copy is empty")
    found = absolute(Path(text).expanduser() if text.startswith("~") else text)
    return f"file://{found}".rstrip("/") if found.startswith("/") else found.rstrip("/")


def _folders(prefixes: Mapping[str, str] | None) -> dict[str, str]:
    found = checked_texts("prefixes", prefixes)
    if not all(old and new for old, new in found.items()):
        raise SchemaError(f"prefixes must name folders, found {found!r}")
    return {absolute(old).rstrip("/"): absolute(new).rstrip("/") for old, new in found.items()}
