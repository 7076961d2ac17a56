"""The samples that a process has read or written last, as the next commit needs them.

A commit continues the samples of the snapshot before, and a row change asks for them to find out what it removes. A
process that remembers them reads no statistics for that.

Samples that appends have made are not put together before someone asks: only the hashes that the appends have added
are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from skerry.storage import Storage
from skerry.table.statistics.file_groups import FileGroup
from skerry.table.statistics.group_samples import GroupSamples
from skerry.table.statistics.group_sketches import GroupSketches
from skerry.table.statistics.pieces.chain import Link, SamplePieces
from skerry.table.statistics.pieces.sample_piece import SamplePiece
from skerry.table.statistics.table_sample import TableSample
from skerry.table.work.remembered import Remembered, version_of
from skerry.theta.layout import CompactSketch

__all__ = ["Chain", "KnownSample", "LaterSamples", "remember", "remembered"]

_FILE_BYTES: Final = 200
"""What a file takes in memory: two numbers in a dictionary."""


@dataclass(frozen=True, slots=True, eq=False)
class Chain:
    """How some statistics files hold samples together.

    Args:
        links: The parts, the whole sample first.
        paths: Their statistics files.
        whole_groups: The groups of the whole sample.
        whole_bytes: About what the whole sample takes.
        pieces: The other parts.
        thetas: By field id, the thresholds that these say.
        rows_theta: The threshold of the sampled rows; None if there are none.
        schema_id: The schema by which the values were hashed.
        last_column_id: The highest field id of that time.
    """

    links: tuple[Link, ...]
    paths: tuple[str, ...]
    whole_groups: tuple[FileGroup, ...]
    whole_bytes: int
    pieces: tuple[SamplePiece, ...]
    thetas: Mapping[int, int]
    rows_theta: int | None
    schema_id: int
    last_column_id: int

    @classmethod
    def of(cls, parts: SamplePieces, paths: tuple[str, ...]) -> Chain:
        """The chain of samples that were read or written, and the statistics files of its parts."""
        whole = parts.whole
        rows_theta = None if whole.rows is None else whole.rows.theta
        thetas = {id_: column.theta for id_, column in whole.columns.items()}
        numbers = (parts.schema_id, parts.last_column_id)
        chain = cls(parts.links[:1], paths[:1], whole.groups, whole.size_bytes, (), thetas, rows_theta, *numbers)
        for link, path, piece in zip(parts.links[1:], paths[1:], parts.pieces, strict=True):
            chain = chain.continued(link, path, piece)
        return chain

    @property
    def groups(self) -> tuple[FileGroup, ...]:
        """The groups after the last part."""
        return self.pieces[-1].groups if self.pieces else self.whole_groups

    def continued(self, link: Link, path: str, piece: SamplePiece) -> Chain:
        """With one more part."""
        rows = piece.rows
        return Chain(
            (*self.links, link),
            (*self.paths, path),
            self.whole_groups,
            self.whole_bytes,
            (*self.pieces, piece),
            {
                id_: min(theta, piece.thetas.get(id_, theta))
                for id_, theta in self.thetas.items()
                if id_ not in piece.dropped
            },
            None if rows is None or self.rows_theta is None else min(self.rows_theta, rows.added.theta),
            self.schema_id,
            self.last_column_id,
        )

    def cut(self, parts: int) -> Chain:
        """Only some of the first parts; thresholds stay as low as they are."""
        return Chain(
            self.links[:parts],
            self.paths[:parts],
            self.whole_groups,
            self.whole_bytes,
            self.pieces[: parts - 1],
            self.thetas,
            self.rows_theta,
            self.schema_id,
            self.last_column_id,
        )


@dataclass(frozen=True, slots=True, eq=False)
class LaterSamples:
    """Samples that are put together when someone asks.

    Args:
        base: The samples of an earlier snapshot.
        later: What has changed since; None if nothing has.
    """

    base: GroupSamples
    later: SamplePiece | None = None

    @property
    def size_bytes(self) -> int:
        """About the memory it takes."""
        return self.base.size_bytes + (0 if self.later is None else self.later.size_bytes)

    def groups(self) -> GroupSamples:
        """The samples, put together."""
        return self.base if self.later is None else self.later.applied_to(self.base)

    def then(self, piece: SamplePiece) -> LaterSamples:
        """With one more change."""
        return LaterSamples(self.base, piece if self.later is None else self.later.then(piece))


@dataclass(slots=True, eq=False)
class KnownSample:
    """The samples of a snapshot, and how its statistics file and earlier ones hold them.

    Threads share it: each attribute is replaced as a whole by one that says the same.

    Args:
        chain: The parts.
        samples: The samples of the snapshot; their groups are those of the chain.
        missing_files: Live data files that are in no group.
        own: Sketches of single groups.
        sketches: By field id, the smallest hashes of all rows, as they would be published; None if not known yet.
        exact: The columns whose samples describe exactly the live rows; None if not known yet.
    """

    chain: Chain
    samples: LaterSamples
    missing_files: int = 0
    own: GroupSketches = field(default_factory=GroupSketches)
    sketches: Mapping[int, CompactSketch] | None = None
    exact: frozenset[int] | None = None

    @classmethod
    def of(cls, parts: SamplePieces, paths: tuple[str, ...]) -> KnownSample:
        """Samples that were read or written."""
        return cls(Chain.of(parts, paths), LaterSamples(parts.groups()), parts.missing_files, parts.own)

    @property
    def size_bytes(self) -> int:
        """About the memory it takes."""
        files = sum(len(group.files) for group in self.chain.groups)
        own = sum(sketch.hashes.nbytes for found in self.own.sketches.values() for sketch in found.values())
        pieces = sum(piece.size_bytes for piece in self.chain.pieces)
        sketches = sum(sketch.hashes.nbytes for sketch in (self.sketches or {}).values())
        return self.samples.size_bytes + _FILE_BYTES * files + own + pieces + sketches

    def groups(self) -> GroupSamples:
        """The samples, put together."""
        samples = self.samples
        if samples.later is not None:
            self.samples = samples = LaterSamples(samples.groups())
        return samples.base

    def published(self) -> Mapping[int, CompactSketch]:
        """By field id, the smallest hashes of all rows."""
        if self.sketches is None:
            groups = self.groups()
            self.sketches = {id_: groups.sketch(id_).compact for id_ in groups.columns}
        return self.sketches

    def exact_columns(self) -> frozenset[int]:
        """The columns whose samples describe exactly the live rows."""
        if self.exact is None:
            self.exact = frozenset(TableSample(self.groups(), self.missing_files).exact_columns)
        return self.exact


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    """Samples, and the versions of the files that hold them."""

    sample: KnownSample
    versions: tuple[object, ...]


_REMEMBERED: Final[Remembered[str, _Kept]] = Remembered(
    64, limit_bytes=256 << 20, size_of=lambda kept: kept.sample.size_bytes
)
"""The samples that this process used last, by the statistics file of their newest part."""


def remember(storage: Storage, sample: KnownSample) -> None:
    """Keep samples for the next commit, in place of those that they continue.

    Args:
        storage: Access to their files, which have been written.
        sample: The samples.
    """
    *earlier, path = sample.chain.paths
    versions = _versions(storage, sample.chain.paths)
    for each in earlier:
        _REMEMBERED.forget(each)
    if versions is not None:
        _REMEMBERED.keep(path, _Kept(sample, versions))


def remembered(
    storage: Storage, path: str, paths_of: Callable[[Sequence[Link]], tuple[str, ...] | None]
) -> KnownSample | None:
    """The samples that a statistics file holds together with others, if they are remembered.

    They are valid as long as the files of all parts are there as they were.

    Args:
        storage: Access to the files.
        path: The statistics file.
        paths_of: The statistics files that a table has for the parts of a sample now; None if one has none.
    """
    kept = _REMEMBERED.find(path)
    if kept is None:
        return None
    chain = kept.sample.chain
    is_valid = paths_of(chain.links) == chain.paths and _versions(storage, chain.paths) == kept.versions
    return kept.sample if is_valid else None


def _versions(storage: Storage, paths: tuple[str, ...]) -> tuple[object, ...] | None:
    found = tuple(version_of(storage, path) for path in paths)
    return None if None in found else found
