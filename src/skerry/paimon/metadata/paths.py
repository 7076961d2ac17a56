"""The locations of a table's parts below its folder.

Spec: docs/formats/paimon.md § 1.1, § 7.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from skerry.errors import FormatError
from skerry.storage import join

__all__ = ["MAIN_BRANCH", "POSTPONE_BUCKET", "TablePaths", "escape_path_name"]

MAIN_BRANCH: Final = "main"
POSTPONE_BUCKET: Final = -2
"""The bucket of files whose rows are not assigned to buckets yet."""

_NO_NAME: Final = frozenset("/\\\0")
_BLANKS: Final = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2008\u2009\u200a"
    "\u2028\u2029\u205f\u3000"
)
"""Blank characters according to Java's `Character.isWhitespace`, which does not include no-break spaces."""

_ESCAPED: Final = frozenset("\"#%'*/:=?\\{}[]^\x7f") | {chr(code) for code in range(0x20)}


def escape_path_name(text: str) -> str:
    """Escape a partition key or value for a path.

    Spec: docs/formats/paimon.md § 7.5.
    """
    if _ESCAPED.isdisjoint(text):
        return text
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Locations of a table's files.

    Args:
        root: The table's folder.
        branch: A branch has its own schemas, snapshots, tags, changelogs and consumers; everything else is in the
            table's folder.
        data_folder: Folder below the root that contains partitions and buckets (`data-file.path-directory`).
        default_partition: The text for null in paths (`partition.default-name`).
        index_beside_data: Whether index files are in bucket folders (`index-file-in-data-file-dir`).
    """

    root: str
    branch: str = MAIN_BRANCH
    data_folder: str = ""
    default_partition: str = "__DEFAULT_PARTITION__"
    index_beside_data: bool = False

    @property
    def branch_root(self) -> str:
        """The folder of the branch's own files."""
        return self.root if self.branch == MAIN_BRANCH else join(self.root, "branch", f"branch-{self.branch}")

    @property
    def branches(self) -> str:
        """The folder of branches."""
        return join(self.root, "branch")

    @property
    def schemas(self) -> str:
        """The folder of schema files."""
        return join(self.branch_root, "schema")

    @property
    def snapshots(self) -> str:
        """The folder of snapshots and their hints."""
        return join(self.branch_root, "snapshot")

    @property
    def changelogs(self) -> str:
        """The folder of changelogs that outlive their snapshots."""
        return join(self.branch_root, "changelog")

    @property
    def tags(self) -> str:
        """The folder of tags."""
        return join(self.branch_root, "tag")

    @property
    def consumers(self) -> str:
        """The folder of consumers."""
        return join(self.branch_root, "consumer")

    @property
    def manifests(self) -> str:
        """The folder of manifests, their lists and index manifests."""
        return join(self.root, "manifest")

    def schema(self, schema_id: int) -> str:
        """A schema file."""
        return join(self.schemas, f"schema-{schema_id}")

    def snapshot(self, snapshot_id: int) -> str:
        """A snapshot file."""
        return join(self.snapshots, f"snapshot-{snapshot_id}")

    def changelog(self, snapshot_id: int) -> str:
        """The changelog kept of an expired snapshot."""
        return join(self.changelogs, f"changelog-{snapshot_id}")

    def tag(self, name: str) -> str:
        """A tag."""
        return join(self.tags, f"tag-{name}")

    def consumer(self, name: str) -> str:
        """A consumer."""
        return join(self.consumers, f"consumer-{name}")

    def manifest(self, file_name: str) -> str:
        """A manifest, a list of them, or an index manifest.

        Raises:
            FormatError: The name leads outside the folder.
        """
        return self._inside(self.manifests, file_name)

    def statistics(self, file_name: str) -> str:
        """A statistics file.

        Raises:
            FormatError: The name leads outside the folder.
        """
        return self._inside(join(self.root, "statistics"), file_name)

    def index_file(self, file_name: str, bucket_folder: str) -> str:
        """An index file.

        Args:
            file_name: Its name.
            bucket_folder: The folder of its bucket.

        Raises:
            FormatError: The name leads outside the folder.
        """
        return self._inside(bucket_folder if self.index_beside_data else join(self.root, "index"), file_name)

    def bucket(self, partition: Sequence[tuple[str, str | None]], bucket: int) -> str:
        """The folder of a bucket.

        Args:
            partition: Names and texts of the partition keys' values, in their order; null, empty and blank texts
                become the default partition.
            bucket: The bucket; -2 for files whose rows are not assigned to buckets yet.
        """
        folder = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        return join(self.partition(partition), folder)

    def partition(self, partition: Sequence[tuple[str, str | None]]) -> str:
        """The folder of a partition; see `bucket`."""
        parts = [self.data_folder] if self.data_folder else []
        for name, text in partition:
            value = text if text is not None and text.strip(_BLANKS) else self.default_partition
            parts.append(f"{escape_path_name(name)}={escape_path_name(value)}")
        return join(self.root, *parts)

    @staticmethod
    def data_file(bucket_folder: str, file_name: str) -> str:
        """A data file, changelog file or file index.

        Raises:
            FormatError: The name leads outside the folder.
        """
        return TablePaths._inside(bucket_folder, file_name)

    @staticmethod
    def _inside(folder: str, file_name: str) -> str:
        if file_name in ("", ".", "..") or not _NO_NAME.isdisjoint(file_name):
            raise FormatError(
                f"{file_name!r} is not a valid file name in {folder}", rule="docs/formats/paimon.md § 1.2"
            )
        return join(folder, file_name)
