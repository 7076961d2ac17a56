"""Access to files: a `Storage` has the options, finds the store of a location, and counts requests."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from skerry.arguments import check_list
from skerry.errors import FormatError, NotFoundError, SchemaError, UnsupportedError
from skerry.storage.local import LocalFiles
from skerry.storage.location import Family, FileStatus, Folder, Location, is_relative, join, parse_location, redact
from skerry.storage.metrics import Metrics
from skerry.storage.moves import Move, Moves, move_of
from skerry.storage.options import BASE_LOCATION, READ_ONLY, describe_options, select_options
from skerry.storage.ranges import plan_fetches

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from skerry.storage.objects import ObjectFiles
    from skerry.storage.renewing import RenewedCredentials
    from skerry.storage.signed import SignedFiles, SignedRequests
    from skerry.storage.streams import Sink

__all__ = ["Storage", "storage_of"]

_RELATIVE = "Iceberg spec, Paths in Metadata"


class Storage:
    """Files on this machine, in memory, S3, Google Cloud Storage and Azure, by their locations.

    Cheap to create, safe to use from many threads, and picklable: a copy in another process has the same options and
    its own counters. Files in memory (`memory://`) belong to the process, not to the instance.

    Every method raises `NotFoundError` for a missing file, `AccessDeniedError` when the store refuses, and
    `StorageError` when it fails otherwise.

    Args:
        options: PyIceberg's property names (`s3.endpoint`, `s3.access-key-id`, `gcs.oauth2.token`, `adls.sas-token` …).
            Without keys, those of the machine (environment, instance) are used. Other properties are ignored.
        allowed_locations: Folders whose tables may be read although they have files outside their own folder. Kept for
            planners; the storage itself does not check them.
        renewed: The same options, if their credentials expire and are renewed.
        requests: Sends requests to S3, signed by a catalog that keeps the keys to itself.

    Attributes:
        move: The folder that was moved since its metadata was written, if any: its files are read from the new
            location, and only there files are written and deleted.
        base: The folder to which relative locations are joined; None to take them from the working directory.
        keys: What decrypts the files of an encrypted table; None for others. Kept for those who read such files, and
            never pickled.
    """

    def __init__(
        self,
        options: Mapping[str, Any] | None = None,
        allowed_locations: Iterable[str] = (),
        renewed: RenewedCredentials | None = None,
        requests: SignedRequests | None = None,
    ) -> None:
        self.renewed = renewed
        self.requests = requests
        self.options: dict[str, str] = select_options(options or {})
        self.move: Move | Moves | None = move_of(self.options)
        self.base = self.options.get(BASE_LOCATION)
        self.allowed_locations = tuple(allowed_locations)
        self.keys: Any = None
        self.metrics = Metrics()
        self._local = LocalFiles(self.metrics)
        self._objects: dict[tuple[Family, str], ObjectFiles | SignedFiles] = {}
        self._lock = threading.Lock()

    def allowing(self, allowed_locations: Iterable[str]) -> Storage:
        """The same storage, sharing connections and counters, with other allowed locations.

        Raises:
            SchemaError: `allowed_locations` is not a list of paths.
        """
        check_list("allowed_locations", allowed_locations, "paths")
        return self._with(allowed_locations=tuple(allowed_locations))

    def with_keys(self, keys: Any, read_only: str | None = None) -> Storage:
        """The same storage, sharing connections and counters, for the files of an encrypted table.

        Args:
            keys: What decrypts them.
            read_only: Why nothing may be written or deleted; None if it may.
        """
        options = self.options if read_only is None else {**self.options, READ_ONLY: read_only}
        return self._with(keys=keys, options=options)

    def _with(self, **attributes: Any) -> Storage:
        other = object.__new__(Storage)
        other.__dict__.update(self.__dict__, **attributes)
        return other

    def following(self, moves: Moves) -> Storage:
        """The same storage, sharing connections and counters, that reads files of moved folders where they are now."""
        return self._with(move=moves)

    def size(self, location: str) -> int:
        """Size of a file in bytes; one request."""
        found = self._located(location)
        return self._files(found).size(found)

    def exists(self, location: str) -> bool:
        """Whether a file of this name exists; folders do not count."""
        try:
            self.size(location)
        except NotFoundError:
            return False
        return True

    def read(self, location: str) -> bytes:
        """Read a whole file; one request."""
        found = self._located(location)
        return self._files(found).read(found)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset`; one request.

        Returns:
            Exactly `length` bytes.

        Raises:
            FormatError: The range is negative, or reaches beyond the end of the file.
        """
        found = self._located(location)
        _check_range(found, offset, length)
        return self._files(found).read_ranges(found, [(offset, length)])[0] if length else b""

    def read_ranges(self, location: str, offsets: Sequence[int], lengths: Sequence[int]) -> list[memoryview]:
        """Read several ranges of one file; ranges close together share a request, others are fetched concurrently.

        Args:
            location: The file.
            offsets: First byte of each range, in any order; ranges may overlap.
            lengths: Their lengths.

        Returns:
            One view per range, exactly as long as requested; views of one request share its memory.

        Raises:
            FormatError: A range is negative, or reaches beyond the end of the file.
        """
        found = self._located(location)
        for offset, length in zip(offsets, lengths, strict=True):
            _check_range(found, offset, length)
        files = self._files(found)
        views = [memoryview(b"")] * len(offsets)
        fetches = plan_fetches(offsets, lengths, files.merge_gap_bytes)
        if fetches:
            try:
                parts = files.read_ranges(found, [(fetch.offset, fetch.length) for fetch in fetches])
            except FormatError:
                for offset, length in zip(offsets, lengths, strict=True):
                    self.read_range(location, offset, length)  # so that the error names the requested range
                raise
            for fetch, part in zip(fetches, parts, strict=True):
                whole = memoryview(part)
                for index in fetch.wanted:
                    start = offsets[index] - fetch.offset
                    views[index] = whole[start : start + lengths[index]]
        return views

    def read_tail(self, location: str, length: int) -> tuple[bytes, int]:
        """Read the end of a file; one request (two on Azure and for an empty object).

        Args:
            location: The file.
            length: Bytes wanted; a smaller file is read whole.

        Returns:
            The last `min(length, size)` bytes, and the size of the file.
        """
        found = self._located(location)
        _check_range(found, 0, length)
        return self._files(found).read_tail(found, length)

    def write(self, location: str, data: Buffer, *, overwrite: bool = False) -> None:
        """Write a file that appears complete or not at all.

        Args:
            location: The file; missing folders are created.
            data: Contiguous bytes.
            overwrite: Whether an existing file is replaced. If not, exactly one of several writers succeeds.

        Raises:
            AlreadyExistsError: The file exists, and `overwrite` is false.
        """
        found = self._writable(location)
        self._files(found).write(found, memoryview(data).cast("B"), overwrite=overwrite)

    def list(self, prefix: str) -> Iterator[FileStatus]:
        """List all files below a folder, at any depth; none if the folder does not exist.

        Args:
            prefix: The folder, with or without a trailing slash. `a/b` does not find `a/bc`.

        Yields:
            The files; their locations start with `prefix` as given.
        """
        found = self._located(prefix)
        return self._files(found).list_files(found)

    def list_folder(self, location: str) -> Folder:
        """List the direct contents of a folder, so that subfolders can be listed concurrently; empty if there are none.

        Folders that are links are left out, as in `list`.
        """
        found = self._located(location)
        return self._files(found).list_folder(found)

    def delete(self, locations: Iterable[str]) -> None:
        """Delete files, in batches where the store can; a missing file counts as deleted."""
        if isinstance(locations, str):
            raise TypeError("delete takes several locations, not one string")
        groups: dict[tuple[Family, str], list[Location]] = {}
        for location in locations:
            found = self._writable(location)
            groups.setdefault((found.family, found.authority), []).append(found)
        for group in groups.values():
            self._files(group[0]).delete(group)

    def open_input(self, location: str) -> BinaryIO:
        """Open a file as a buffered, seekable binary stream; it must be closed."""
        found = self._located(location)
        return self._files(found).open_input(found)

    def open_output(self, location: str, *, overwrite: bool = False) -> Sink:
        """Open a binary stream whose file appears when it is closed.

        `abort()`, leaving a `with` block by an exception, and dropping the stream unclosed leave no file.

        Args:
            location: The file; missing folders are created.
            overwrite: Whether an existing file is replaced.

        Raises:
            AlreadyExistsError: The file exists, and `overwrite` is false. `close()` raises it too, if the file has been
                created meanwhile.
        """
        found = self._writable(location)
        return self._files(found).open_output(found, overwrite=overwrite)

    def arrow_file(self, location: str) -> Any:
        """Open a file for PyArrow's random access: PyArrow's own file if it is local, ranged reads otherwise.

        Returns:
            A `pyarrow.NativeFile`. Reads of a local one are not counted.
        """
        found = self._located(location)
        return self._files(found).arrow_file(found)

    def identity(self, location: str) -> str:
        """Distinguishes this storage from others where a location may be another file: kind and public options."""
        found = self._located(location)
        if found.family is Family.LOCAL:
            return f"{found.family.value} {self.move or ''} {self.base or ''}".rstrip()
        return f"{found.family.value} {found.authority} {sorted(describe_options(self.options).items())}"

    def actual_location(self, location: str) -> str:
        """The location of a file for programs that open it themselves: differs in a folder that was moved."""
        location = self.resolved(location)
        return location if self.move is None else self.move(location)

    def resolved(self, location: str) -> str:
        """A location in the metadata of a table: a relative one is joined to the table's folder, if that is known.

        Raises:
            FormatError: A relative location has segments `.` or `..`, which version 4 of Iceberg excludes.

        Spec: Iceberg spec, Paths in Metadata.
        """
        if self.base is None or not is_relative(location):
            return location
        if not {".", ".."}.isdisjoint(location.split("/")):
            raise FormatError(
                "a relative location must not have segments '.' or '..'", location=location, rule=_RELATIVE
            )
        return join(self.base, location)

    def check_writable(self, location: str) -> None:
        """Refuse a location where nothing may be written or deleted, before any work is done.

        Raises:
            UnsupportedError: The storage is read-only, or was opened for a folder that was copied or moved, and the
                location is not in it.
        """
        if READ_ONLY in self.options:
            raise UnsupportedError(self.options[READ_ONLY], location=redact(location))
        if self.move is not None:
            self.move.check_writable(location)

    def _located(self, location: str) -> Location:
        return parse_location(self.actual_location(location))

    def _writable(self, location: str) -> Location:
        self.check_writable(location)
        return parse_location(location)

    def _files(self, location: Location) -> LocalFiles | ObjectFiles | SignedFiles:
        if location.family is Family.LOCAL:
            return self._local
        key = (location.family, location.authority)
        files = self._objects.get(key)
        if files is None:
            with self._lock:
                files = self._objects.get(key)
                if files is None:
                    files = self._objects[key] = self._opened(location)
        return files

    def _opened(self, location: Location) -> ObjectFiles | SignedFiles:
        if self.requests is not None and location.family is Family.S3:
            from skerry.storage.signed import SignedFiles

            return SignedFiles(location.authority, self.options, self.metrics, self.requests)
        from skerry.storage.objects import ObjectFiles

        return ObjectFiles(location, self.options, self.metrics, self.renewed)

    def __reduce__(self) -> tuple[type[Storage], tuple[Any, ...]]:
        options = self.options if self.renewed is None else self.renewed.options
        return Storage, (options, self.allowed_locations, self.renewed, self.requests)

    def __repr__(self) -> str:
        return f"Storage({describe_options(self.options)})"


def storage_of(storage: Storage | None, options: Mapping[str, str] | None) -> Storage:
    """The storage that `storage=` and `options=` of a function mean: the given one, or a new one with the options.

    Args:
        storage: An open storage, whose connections and counters are shared.
        options: Options for a new one, such as credentials: see `Storage`.

    Raises:
        SchemaError: Both are given.
        UnsupportedError: An option cannot be honoured.
    """
    if storage is None:
        return Storage(options)
    if options is not None:
        raise SchemaError("storage= and options= exclude each other: a storage has its own options")
    return storage


def _check_range(location: Location, offset: int, length: int) -> None:
    if offset < 0 or length < 0:
        raise FormatError(f"cannot read {length} bytes from byte {offset}", location=redact(location.text))
