"""A storage as PyArrow's filesystem, so that datasets and Parquet readers use its stores, options and guarantees."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import fs

from skerry.errors import NotFoundError, UnsupportedError

if TYPE_CHECKING:
    from skerry.storage.storage import Storage

__all__ = ["arrow_filesystem"]


def arrow_filesystem(storage: Storage) -> fs.FileSystem:
    """Wrap a storage; paths are locations. Folders exist as far as there are files in them."""
    return fs.PyFileSystem(_Handler(storage))


class _Handler(fs.FileSystemHandler):  # type: ignore[misc]
    """What PyArrow asks of a filesystem, answered by a storage."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Handler) and other.storage is self.storage

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """The name PyArrow shows."""
        return "skerry"

    def normalize_path(self, path: str) -> str:
        """Locations are taken literally."""
        return path

    def get_file_info(self, paths: Iterable[str]) -> list[fs.FileInfo]:
        """What each path is."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        try:
            return fs.FileInfo(path, fs.FileType.File, size=self.storage.size(path))
        except NotFoundError:
            found = next(iter(self.storage.list(path)), None)
            return fs.FileInfo(path, fs.FileType.NotFound if found is None else fs.FileType.Directory)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """The files below a folder, and the folders that hold them."""
        base = selector.base_dir.rstrip("/")
        infos: dict[str, fs.FileInfo] = {}
        for status in self.storage.list(selector.base_dir):
            *folders, _ = status.location[len(base) + 1 :].split("/")
            for depth in range(1, len(folders) + 1):
                folder = "/".join([base, *folders[:depth]])
                if selector.recursive or depth == 1:
                    infos.setdefault(folder, fs.FileInfo(folder, fs.FileType.Directory))
            if selector.recursive or not folders:
                infos[status.location] = fs.FileInfo(
                    status.location, fs.FileType.File, size=status.size_bytes, mtime=status.modified
                )
        if not infos and not selector.allow_not_found:
            raise FileNotFoundError(selector.base_dir)
        return list(infos.values())

    def create_dir(self, path: str, recursive: bool) -> None:
        """Nothing to do: writing a file makes its folders."""

    def delete_file(self, path: str) -> None:
        """Delete one file."""
        self.storage.delete([path])

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading."""
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for reading at random."""
        try:
            return self.storage.arrow_file(path)
        except NotFoundError as error:
            raise FileNotFoundError(str(error)) from error

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Open a file for writing; one of the same name is replaced, as PyArrow expects."""
        return pa.PythonFile(self.storage.open_output(path, overwrite=True), mode="w")

    def copy_file(self, source: str, target: str) -> None:
        """Copy one file."""
        self.storage.write(target, self.storage.read(source), overwrite=True)

    def move(self, source: str, target: str) -> None:
        """Refused: object stores cannot."""
        raise _unsupported("move files", source)

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        """Refused: a file appears complete or not at all."""
        raise _unsupported("append to a file", path)

    def delete_dir(self, path: str) -> None:
        """Refused: what may be deleted is decided by table metadata, file by file."""
        raise _unsupported("delete folders", path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        """Refused, like `delete_dir`."""
        raise _unsupported("delete folders", path)

    def delete_root_dir_contents(self) -> None:
        """Refused, like `delete_dir`."""
        raise _unsupported("delete folders", "/")


def _unsupported(what: str, path: str) -> UnsupportedError:
    return UnsupportedError(f"this filesystem does not {what}", location=path)
