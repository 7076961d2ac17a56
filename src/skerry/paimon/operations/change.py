"""The change that an operation makes to a Paimon table, decided for one base state."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from skerry.paimon.manifests.index_manifest import IndexManifestEntry
from skerry.paimon.manifests.manifest import ManifestEntry
from skerry.paimon.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind
from skerry.table.statistics.table_sample import SampleChange, TableSample

__all__ = ["CommitId", "IndexChange", "TableChange"]


@dataclass(frozen=True, slots=True)
class CommitId:
    """Who commits what; the same for every attempt, so that a commit is recognised and not repeated.

    Args:
        user: A unique name.
        identifier: Number of the commit among the user's; ascending.
    """

    user: str
    identifier: int = BATCH_COMMIT_IDENTIFIER

    @classmethod
    def fresh(cls) -> CommitId:
        """The id of a batch commit: a user that commits once."""
        return cls(str(uuid.uuid4()))

    @property
    def is_batch(self) -> bool:
        """Whether its user commits once, so that numbers are irrelevant."""
        return self.identifier == BATCH_COMMIT_IDENTIFIER


@dataclass(frozen=True, slots=True)
class IndexChange:
    """The change of a table's index files.

    Args:
        added: Index files to add.
        removed: Index files to remove: entries of the base.
    """

    added: tuple[IndexManifestEntry, ...] = ()
    removed: tuple[IndexManifestEntry, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


@dataclass(frozen=True, slots=True)
class TableChange:
    """One snapshot to create.

    Args:
        kind: What the commit does.
        commit_id: Who commits.
        entries: Data files to add and delete.
        changelog: Changelog files to add.
        index: Index files to add and remove.
        samples: The effect on the table's samples; None if unknown.
        sample: The samples after the change, if they were sketched from scratch.
        properties: The snapshot's properties.
        watermark: Event time that the rows have reached.
        beside: Locations of files that were written for the change and that the snapshot does not name.
    """

    kind: CommitKind
    commit_id: CommitId
    entries: tuple[ManifestEntry, ...] = ()
    changelog: tuple[ManifestEntry, ...] = ()
    index: IndexChange = field(default_factory=IndexChange)
    samples: SampleChange | None = None
    sample: TableSample | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    watermark: int | None = None
    beside: tuple[str, ...] = ()
