"""PyIceberg's file access through skerry's storage.

Named in a catalog's properties (`FILE_IO`), it gives everything PyIceberg reads and writes the options, stores and
guarantees of `skerry.storage`. Credentials that a catalog vends for one table arrive as properties of that table's
FileIO, and win there.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, Final

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.typedef import EMPTY_DICT, Properties

from skerry.errors import AccessDeniedError, AlreadyExistsError, NotFoundError
from skerry.iceberg.metadata.metadata_json import GZIP_SUFFIX, inflate_metadata
from skerry.storage import Storage

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from skerry.storage import Sink

__all__ = ["FILE_IO", "SkerryFileIO", "table_storage"]

FILE_IO: Final = {"py-io-impl": "skerry.iceberg.catalogs.pyiceberg_files.SkerryFileIO"}
"""The property of a PyIceberg catalog that makes it read and write through our storage."""


class SkerryFileIO(FileIO):
    """PyIceberg's FileIO on a `Storage`.

    Args:
        properties: The catalog's or table's properties; the storage takes its options from them.

    Attributes:
        storage: Performs the reads and writes; its metrics count them.
    """

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self.storage = Storage(properties)

    def new_input(self, location: str) -> SkerryInputFile:
        """A file to read; no request is made yet."""
        return SkerryInputFile(location, self.storage)

    def new_output(self, location: str) -> SkerryOutputFile:
        """A file to write; no request is made yet."""
        return SkerryOutputFile(location, self.storage)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file.

        Raises:
            FileNotFoundError: There is no such file.
        """
        path = location if isinstance(location, str) else location.location
        with _builtin_errors(path):
            self.storage.size(path)
            self.storage.delete([path])


def table_storage(table: Table, properties: Mapping[str, str]) -> Storage:
    """A table's storage, with the options of its catalog and the credentials vended for the table.

    PyIceberg also takes the table's own properties as options, so that a writer of the table could redirect a reader's
    requests.

    Args:
        table: The table, as its catalog gave it.
        properties: The catalog's properties.
    """
    io, own = table.io, table.metadata.properties
    storage = io.storage if isinstance(io, SkerryFileIO) else Storage(io.properties)
    foreign = {key for key, value in storage.options.items() if own.get(key) == value != properties.get(key)}
    if not foreign:
        return storage
    kept = {key: value for key, value in storage.options.items() if key not in foreign}
    return Storage({**kept, **{key: properties[key] for key in foreign if key in properties}})


class SkerryInputFile(InputFile):
    """A file that PyIceberg reads."""

    def __init__(self, location: str, storage: Storage) -> None:
        super().__init__(location)
        self._storage = storage

    def __len__(self) -> int:
        with _builtin_errors(self.location):
            return self._storage.size(self.location)

    def exists(self) -> bool:
        """Whether there is such a file."""
        with _builtin_errors(self.location):
            return self._storage.exists(self.location)

    def open(self, seekable: bool = True) -> BinaryIO:
        """Open the file; the stream is seekable in any case.

        Raises:
            FileNotFoundError: There is no such file.
            PermissionError: The store refuses.
        """
        with _builtin_errors(self.location):
            if self.location.endswith(GZIP_SUFFIX):
                data = self._storage.read(self.location)
                inflate_metadata(data, location=self.location)  # PyIceberg inflates without a limit
                return io.BytesIO(data)
            return self._storage.open_input(self.location)


class SkerryOutputFile(OutputFile):
    """A file that PyIceberg writes."""

    def __init__(self, location: str, storage: Storage) -> None:
        super().__init__(location)
        self._storage = storage

    def __len__(self) -> int:
        return len(self.to_input_file())

    def exists(self) -> bool:
        """Whether there is such a file already."""
        return self.to_input_file().exists()

    def to_input_file(self) -> SkerryInputFile:
        """The same file, for reading."""
        return SkerryInputFile(self.location, self._storage)

    def create(self, overwrite: bool = False) -> Sink:
        """Open a stream whose file appears when it is closed without an exception.

        Raises:
            FileExistsError: There is such a file, and `overwrite` is false.
            PermissionError: The store refuses.
        """
        with _builtin_errors(self.location):
            return self._storage.open_output(self.location, overwrite=overwrite)


@contextmanager
def _builtin_errors(location: str) -> Iterator[None]:
    """Translate errors to those of PyIceberg's protocol."""
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), location) from error
    except AlreadyExistsError as error:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), location) from error
    except AccessDeniedError as error:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), location) from error
