"""Planning of compaction: which data files are worth rewriting, and which of them together.

Files of one partition are packed into groups. A group is rewritten if it merges many small files, splits a file that is
too large, or applies deletes; other files stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from skerry.table.files.data_file import DataFile
from skerry.table.files.scan_task import FileScanTask
from skerry.table.summaries import CompactOptions

__all__ = ["SMALL", "CompactRules", "FileGroup", "RewriteReason", "compact_rules", "plan_groups"]

SMALL = 0.75
"""Files below this share of the target size are small."""
_LARGE = 1.8
_MIN_INPUT_FILES: Final = 5


class RewriteReason(Enum):
    """Why a group of files is rewritten."""

    ASKED = "asked for"
    """All files are to be rewritten."""
    DELETES = "deletes"
    """Its files have rows deleted by delete files."""
    TOO_LARGE = "too large"
    """A file is much larger than the target."""
    MANY_SMALL = "many small files"
    """There are many files much smaller than the target, or their total size exceeds it."""


@dataclass(frozen=True, slots=True)
class CompactRules:
    """When to rewrite files.

    Args:
        target_file_size_bytes: The target size of files. Files of 0.75 to 1.8 times that size are left alone.
        min_input_files: This many small files of a partition are merged, even if they do not fill one.
        min_deletes: A data file with this many delete files is rewritten; None ignores delete files.
        max_group_bytes: Maximum size of the files of a group, which is written, and repeated after a conflict, as one.
        all_files: Whether every file is rewritten.
    """

    target_file_size_bytes: int
    min_input_files: int = _MIN_INPUT_FILES
    min_deletes: int | None = 1
    max_group_bytes: int = 2 << 30
    all_files: bool = False

    def has_deletes(self, task: FileScanTask) -> bool:
        """Whether a file has enough delete files to be rewritten."""
        return self.min_deletes is not None and len(task.deletes) >= self.min_deletes

    def is_small(self, file: DataFile) -> bool:
        """Whether a file is much smaller than the target."""
        return file.file_size_bytes < SMALL * self.target_file_size_bytes

    def is_large(self, file: DataFile) -> bool:
        """Whether a file is much larger than the target."""
        return file.file_size_bytes > _LARGE * self.target_file_size_bytes


def compact_rules(options: CompactOptions, target_file_size_bytes: int) -> CompactRules:
    """The rules for given options.

    Args:
        options: How files are to be compacted.
        target_file_size_bytes: The target size if none was given.
    """
    return CompactRules(
        options.target_file_size_bytes or target_file_size_bytes,
        min_input_files=_MIN_INPUT_FILES if options.min_input_files is None else options.min_input_files,
        min_deletes=options.min_deletes,
        all_files=options.full or options.sort_by is not None or options.curve is not None,
    )


@dataclass(frozen=True, slots=True)
class FileGroup:
    """Files of one partition that are rewritten together.

    Args:
        tasks: The files, in the order in which they are read.
        reason: Why it is rewritten.
    """

    tasks: tuple[FileScanTask, ...]
    reason: RewriteReason

    @property
    def size_bytes(self) -> int:
        """The total size of the files."""
        return sum(task.data_file.file_size_bytes for task in self.tasks)

    @property
    def locations(self) -> tuple[str, ...]:
        """The locations of the files."""
        return tuple(task.data_file.location for task in self.tasks)


def plan_groups(
    tasks: Iterable[FileScanTask], rules: CompactRules, order: Callable[[FileScanTask], Any] | None = None
) -> list[FileGroup]:
    """Choose files and pack them into groups.

    Args:
        tasks: All files, with their deletes.
        rules: When to rewrite files.
        order: The key by which the files of a partition are sorted before they are packed, so that groups of sorted
            files overlap little; None keeps the order of the table.
    """
    partitions: dict[Any, list[FileScanTask]] = {}
    for task in tasks:
        file = task.data_file
        if rules.all_files or rules.is_small(file) or rules.is_large(file) or rules.has_deletes(task):
            # as text, because no NaN equals another
            partitions.setdefault((file.spec_id, *map(repr, file.partition)), []).append(task)
    groups = []
    for found in partitions.values():
        for pack in _packed(sorted(found, key=order) if order is not None else found, rules.max_group_bytes):
            reason = _reason(pack, rules)
            if reason is not None:
                groups.append(FileGroup(tuple(pack), reason))
    return groups


def _packed(tasks: Sequence[FileScanTask], most_bytes: int) -> list[list[FileScanTask]]:
    """Pack neighbours together up to a size."""
    packs: list[list[FileScanTask]] = []
    size = most_bytes
    for task in tasks:
        if size + task.data_file.file_size_bytes > most_bytes or not packs:
            packs.append([])
            size = 0
        packs[-1].append(task)
        size += task.data_file.file_size_bytes
    return packs


def _reason(tasks: Sequence[FileScanTask], rules: CompactRules) -> RewriteReason | None:
    size = sum(task.data_file.file_size_bytes for task in tasks)
    reasons = (
        (rules.all_files, RewriteReason.ASKED),
        (any(rules.has_deletes(task) for task in tasks), RewriteReason.DELETES),
        (any(rules.is_large(task.data_file) for task in tasks), RewriteReason.TOO_LARGE),
        (len(tasks) >= rules.min_input_files, RewriteReason.MANY_SMALL),
        (len(tasks) > 1 and size > rules.target_file_size_bytes, RewriteReason.MANY_SMALL),
    )
    return next((reason for holds, reason in reasons if holds), None)
