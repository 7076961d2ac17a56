"""Rewrite manifest lists, manifests and position delete files for the new locations of files.

Spec: Iceberg spec, Manifests, Manifest Lists, Position Delete Files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from skerry.avro import rewrite_records
from skerry.errors import FormatError, UnsupportedError
from skerry.iceberg.manifests.manifest import EntryStatus, FileContent
from skerry.iceberg.relocation.names import NewNames
from skerry.iceberg.writing.delete_files import describe_position_file, write_position_file
from skerry.iceberg.writing.file_writers import FileEncoding
from skerry.puffin import PuffinReader
from skerry.puffin.deletion_vector import REFERENCED_DATA_FILE
from skerry.puffin.layout import encode_footer
from skerry.storage import is_relative, join
from skerry.table.files.data_file import DataFile, DeleteFile, DeleteKind
from skerry.table.files.row_deletes import read_positions
from skerry.table.table_files import FileKind

__all__ = ["Manifests"]

# The metrics of a delete file in a manifest, and the attributes of the new file's entry that replace them.
_METRICS = {
    "column_sizes": "column_sizes",
    "value_counts": "value_counts",
    "null_value_counts": "null_value_counts",
    "lower_bounds": "lower_bounds",
    "upper_bounds": "upper_bounds",
}


class Manifests:
    """Rewrites the manifests of one table, each once.

    Args:
        names: The table's old and new names.
    """

    def __init__(self, names: NewNames) -> None:
        self._names = names
        self._manifests: dict[str, tuple[str, int]] = {}
        self._deletes: dict[str, DataFile] = {}
        self._vectors: dict[str, tuple[str, int]] = {}
        self._is_there = False
        """Whether the manifest that is read is in its place already, so that its entries need no description."""

    def rewrite_list(self, location: str, snapshot_id: int) -> str:
        """Rewrite a manifest list and the manifests that it names.

        Returns:
            Its new location.

        Raises:
            FormatError: A file is corrupt.
            NotFoundError: A file is missing.
            UnsupportedError: The table is encrypted.
        """
        names = self._names
        if location in names.renamed:
            return names.renamed[location]
        data = rewrite_records(names.storage.read(location), self._change_list_entry, location=location)
        new = join(names.folder, f"snap-{snapshot_id}-0-{names.unique(location)}.avro")
        names.write(new, data, location, FileKind.MANIFEST_LIST)
        names.written.manifest_lists += 1
        names.renamed[location] = new
        return new

    def rewrite_manifest(self, location: str) -> tuple[str, int]:
        """Rewrite a manifest.

        Returns:
            Its new location and its size.

        Raises:
            As `rewrite_list`.
        """
        known = self._manifests.get(location)
        if known is None:
            names = self._names
            new, data = names.new_file("-m0.avro", location), names.storage.read(location)
            self._is_there = names.size_of(new, location) is not None
            if names.keeps_data:
                if names.storage.base is not None:
                    rewrite_records(data, _refuse_relative, location=location)
            else:
                data = rewrite_records(data, self._change_entry, location=location)
            known = self._manifests[location] = (new, names.write(new, data, location, FileKind.MANIFEST))
            names.written.manifests += 1
            names.renamed[location] = known[0]
        return known

    def _change_list_entry(self, entry: dict[str, Any]) -> None:
        if entry.get("key_metadata"):
            raise UnsupportedError("encrypted manifests cannot be relocated", location=str(entry.get("manifest_path")))
        try:
            entry["manifest_path"], entry["manifest_length"] = self.rewrite_manifest(entry["manifest_path"])
        except KeyError as error:
            raise FormatError(f"a manifest list lacks {error}", rule="Iceberg spec, Manifest Lists") from None

    def _change_entry(self, entry: dict[str, Any]) -> None:
        try:
            file, status = entry["data_file"], entry["status"]
            location = file["file_path"]
        except (KeyError, TypeError) as error:
            raise FormatError(f"a manifest lacks {error}", rule="Iceberg spec, Manifests") from None
        is_live = status != EntryStatus.DELETED
        names, content = self._names, file.get("content") or FileContent.DATA
        if content == FileContent.DATA:
            if is_live:
                names.carry(location, FileKind.DATA, file["file_size_in_bytes"])
            file["file_path"] = names.data_file(location)
            return
        if file.get("referenced_data_file"):
            file["referenced_data_file"] = names.now(file["referenced_data_file"])
        in_vector = file.get("content_offset")
        if content == FileContent.POSITION_DELETES and in_vector is None and is_live:
            self._replace_positions(file)
        elif in_vector is not None and is_live and names.rewrites_vectors:
            file["file_path"], file["file_size_in_bytes"] = self._rewrite_vectors(location)
        elif is_live:
            file["file_path"] = names.carry(location, FileKind.DELETES, file["file_size_in_bytes"])
        else:
            file["file_path"] = names.now(location)
        names.delete_file(location, file["file_path"], in_vector)

    def _replace_positions(self, file: dict[str, Any]) -> None:
        """Make an entry describe the rewritten position delete file."""
        location, names = file["file_path"], self._names
        if self._is_there and location not in names.renamed:
            new = names.new_delete_file(location, str(file["file_format"]).lower())
            size = names.size_of(new, location)
            if size is not None:
                names.note(location, new, FileKind.DELETES, size, is_new=False)
                file["file_path"] = new
                return
        self._describe(file, self._rewrite_positions(file))

    def _rewrite_positions(self, file: Mapping[str, Any]) -> DataFile:
        names, location = self._names, file["file_path"]
        known = self._deletes.get(location)
        if known is not None:
            return known
        file_format = str(file["file_format"]).lower()
        old = DeleteFile(DeleteKind.POSITIONS, location, file_format, file["record_count"], file["file_size_in_bytes"])
        new = names.new_delete_file(location, file_format)
        size = names.size_of(new, location)
        names.written.delete_files += 1
        names.renamed[location] = new
        if names.dry_run:
            names.written.size_bytes += old.file_size_bytes
            known = DataFile(new, file_format, old.record_count, old.file_size_bytes)
        else:
            found = read_positions(names.storage, old)
            deletes = sorted(
                ((names.now(path), rows) for path, rows in found.items()), key=lambda pair: pair[0].encode()
            )
            if size is None:
                known = write_position_file(_encoding(names.deletes, file_format), names.target, new, deletes)
            else:
                known = describe_position_file(file_format, new, size, deletes)
            names.written.size_bytes += known.file_size_bytes
        names.note(location, new, FileKind.DELETES, known.file_size_bytes, is_new=size is None)
        self._deletes[location] = known
        return known

    def _rewrite_vectors(self, location: str) -> tuple[str, int]:
        """Rewrite the footer of a file of deletion vectors, which names data files; returns its location and size."""
        names = self._names
        known = self._vectors.get(location)
        if known is None:
            new = names.new_delete_file(location, "puffin")
            size = names.size_of(new, location)
            if size is None:
                size = names.write(new, self._moved_vectors(location), location, FileKind.DELETES)
            else:
                names.note(location, new, FileKind.DELETES, size, is_new=False)
            known = self._vectors[location] = (new, size)
        return known

    def _moved_vectors(self, location: str) -> bytes:
        names = self._names
        data = names.storage.read(location)
        reader = PuffinReader(location, storage=names.storage)
        blobs = []
        for blob in reader.blobs:
            properties = dict(blob.properties)
            if REFERENCED_DATA_FILE in properties:
                properties[REFERENCED_DATA_FILE] = names.now(properties[REFERENCED_DATA_FILE])
            blobs.append(replace(blob, properties=properties))
        footer = encode_footer(replace(reader.file_metadata, blobs=tuple(blobs)))
        return data[: len(data) - reader.footer_size] + footer

    @staticmethod
    def _describe(file: dict[str, Any], new: DataFile) -> None:
        """Replace the metrics of the old position delete file by those of the new one."""
        file["file_path"] = new.location
        file["record_count"] = new.record_count
        file["file_size_in_bytes"] = new.file_size_bytes
        for field, attribute in _METRICS.items():
            if file.get(field) is not None:
                file[field] = [{"key": key, "value": value} for key, value in getattr(new, attribute).items()]
        if file.get("split_offsets") is not None:
            file["split_offsets"] = list(new.split_offsets) or None


def _refuse_relative(entry: dict[str, Any]) -> None:
    """Refuse data files that would be looked for in the folder of a copy without data."""
    file = entry.get("data_file") or {}
    if is_relative(file.get("file_path") or "/"):
        raise UnsupportedError("data files with relative locations cannot stay", location=str(file["file_path"]))


def _encoding(wanted: FileEncoding, file_format: str) -> FileEncoding:
    """The encoding for a file of that format: that of the table's delete files if the format is the same."""
    if wanted.file_format == file_format:
        return wanted
    return replace(FileEncoding.from_properties({"write.format.default": file_format}), ascending=())
