"""The byte layout of a piece of samples, and of the sampled rows that are gone.

Spec: docs/formats/samples.md § 5, § 6.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from skerry.compression import compress_zstd
from skerry.errors import FormatError, UnsupportedError
from skerry.table.statistics.file_groups import FileGroup
from skerry.table.statistics.group_samples_layout import inflate, part
from skerry.table.statistics.pieces.row_piece import ROW_ID, RowPiece
from skerry.table.statistics.pieces.sample_piece import ChangedHashes, SamplePiece
from skerry.table.statistics.row_sample import RowSample
from skerry.theta.layout import MAX_THETA

__all__ = ["decode_gone_rows", "decode_sample_piece", "encode_gone_rows", "encode_sample_piece"]

VERSION: Final = 1
_RULE: Final = "docs/formats/samples.md § 5"
_ROWS_RULE: Final = "docs/formats/samples.md § 6"
_HEADER: Final = struct.Struct("<11I")
"""Version, groups g, sources s, changed files c, removed files r, added files f, added partitions p, dropped columns d,
thresholds t, columns with changed hashes k, changed hashes n; the frame follows."""
_GROUP_BYTES: Final = 8 + 1 + 5 * 4
_EXACT: Final = 1
_ALL_PARTITIONS: Final = 2
_LISTS: Final = ("sources", "changed files", "removed files", "added files", "partitions")
_GONE_HEADER: Final = struct.Struct("<3I")


def encode_sample_piece(piece: SamplePiece, before: Sequence[FileGroup]) -> bytes:
    """Encode a piece, without its rows.

    Args:
        piece: The piece.
        before: The groups before.
    """
    made = zip(piece.groups, piece.sources, strict=True)
    changes = [_GroupChange.between([before[row] for row in rows], group) for group, rows in made]
    changed = [item for change in changes for item in change.changed]
    removed = [place for change in changes for place in change.removed]
    added = [item for change in changes for item in change.added]
    partitions = [key for change in changes for key in change.partitions]
    sources = np.array([row for rows in piece.sources for row in rows], "<i4")
    columns, counts = np.unique(piece.hashes.field_ids, return_counts=True)
    thetas = sorted(piece.thetas.items())
    arrays = (
        np.array([change.rows for change in changes], "<i8"),
        np.array([_flags(group, change) for group, change in zip(piece.groups, changes, strict=True)], "u1"),
        np.array([len(rows) for rows in piece.sources], "<u4"),
        np.array([len(change.changed) for change in changes], "<u4"),
        np.array([len(change.removed) for change in changes], "<u4"),
        np.array([len(change.added) for change in changes], "<u4"),
        np.array([len(change.partitions) for change in changes], "<u4"),
        np.diff(sources, prepend=np.int32(-1)).astype("<i4") - np.int32(1),
        np.array([place for place, _ in changed], "<u4"),
        np.array([deletes for _, deletes in changed], "<u8"),
        np.array(removed, "<u4"),
        np.array([key for key, _ in added], "<u8"),
        np.array([deletes for _, deletes in added], "<u8"),
        np.array(partitions, "<u8"),
        np.array(sorted(piece.dropped), "<i4"),
        np.array([id_ for id_, _ in thetas], "<i4"),
        np.array([theta for _, theta in thetas], "<u8"),
        columns.astype("<i4"),
        counts.astype("<u4"),
        piece.hashes.values.astype("<u8"),
        np.packbits(piece.hashes.replaced, bitorder="little"),
        piece.hashes.members,
    )
    lists: tuple[Sized, ...] = (
        piece.groups,
        sources,
        changed,
        removed,
        added,
        partitions,
        piece.dropped,
        thetas,
        columns,
        piece.hashes,
    )
    return _HEADER.pack(VERSION, *map(len, lists)) + compress_zstd(b"".join(array.tobytes() for array in arrays))


@dataclass(frozen=True, slots=True)
class _GroupChange:
    """How a group differs from those that it was made of.

    Args:
        changed: Files whose deletes change: the place among the sources' files, in the order of their keys, with the
            exclusive or of the two keys of deletes.
        removed: Places of files that are gone.
        added: Files that come, with the keys of their deletes.
        partitions: Keys of the partitions that come, or of all.
        all_partitions: Whether partitions of the sources are gone, so that all are given.
        rows: By how much the number of rows differs.
    """

    changed: Sequence[tuple[int, int]] = ()
    removed: Sequence[int] = ()
    added: Sequence[tuple[int, int]] = ()
    partitions: Sequence[int] = ()
    all_partitions: bool = False
    rows: int = 0

    @classmethod
    def between(cls, sources: Sequence[FileGroup], group: FileGroup) -> _GroupChange:
        if len(sources) == 1 and sources[0] is group:
            return cls()
        known, partitions, rows = _together(sources)
        changed, removed = [], []
        if group.files != known:
            for place, (key, deletes) in enumerate(sorted(known.items())):
                now = group.files.get(key)
                if now is None:
                    removed.append(place)
                elif now != deletes:
                    changed.append((place, now ^ deletes))
        added = [item for item in group.files.items() if item[0] not in known]
        is_less = not partitions <= group.partitions
        come = group.partitions if is_less else group.partitions - partitions
        return cls(changed, removed, added, sorted(come), is_less, group.row_count - rows)

    def applied_to(self, sources: Sequence[FileGroup], exact: bool) -> FileGroup:
        if len(sources) == 1 and self == _GroupChange((), (), (), ()) and sources[0].exact == exact:
            return sources[0]
        files, partitions, rows = _together(sources)
        keys = sorted(files) if self.changed or self.removed else []
        if any(place >= len(keys) for place in (*self.removed, *(place for place, _ in self.changed))):
            raise FormatError(f"a change of a file beyond the {len(keys)} of its group")
        for place, deletes in self.changed:
            files[keys[place]] ^= deletes
        for place in self.removed:
            files.pop(keys[place], None)
        come = frozenset(self.partitions)
        return FileGroup(
            {**files, **dict(self.added)},
            come if self.all_partitions else partitions | come,
            rows + self.rows,
            exact,
        )


def _flags(group: FileGroup, change: _GroupChange) -> int:
    return _EXACT * group.exact + _ALL_PARTITIONS * change.all_partitions


def _together(groups: Iterable[FileGroup]) -> tuple[dict[int, int], frozenset[int], int]:
    """The files, partitions and rows of several groups."""
    files: dict[int, int] = {}
    partitions: frozenset[int] = frozenset()
    rows = 0
    for group in groups:
        files |= group.files
        partitions |= group.partitions
        rows += group.row_count
    return files, partitions, rows


def decode_sample_piece(
    data: bytes | memoryview, before: Sequence[FileGroup], rows: RowPiece | None, *, location: str = ""
) -> SamplePiece:
    """Decode a piece.

    Args:
        data: The result of `encode_sample_piece`.
        before: The groups before.
        rows: What becomes of the sampled rows.
        location: The file, for messages.

    Raises:
        FormatError: The bytes are not a valid piece, or not one of samples with these groups.
        UnsupportedError: A newer version wrote them.
    """
    try:
        return _decode(memoryview(data), before, rows)
    except FormatError as error:
        raise FormatError(error.message, location=location, rule=_RULE) from error


class _Arrays:
    """Arrays that lie one after the other in bytes of the right length."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, dtype: str, count: int) -> Any:
        found = np.frombuffer(self._data, dtype, count, self._at)
        self._at += found.nbytes
        return found


def _decode(data: memoryview, before: Sequence[FileGroup], rows: RowPiece | None) -> SamplePiece:
    version, g, s, c, r, f, p, d, t, k, n = _HEADER.unpack(part(data, 0, _HEADER.size))
    if version != VERSION:
        raise UnsupportedError(f"a piece of samples of version {version}; this version reads {VERSION}")
    width = (g + 7) // 8
    size = (
        _GROUP_BYTES * g
        + 4 * s
        + 12 * c
        + 4 * r
        + 16 * f
        + 8 * p
        + 4 * d
        + 12 * t
        + 8 * k
        + (8 + width) * n
        + (n + 7) // 8
    )
    arrays = _Arrays(inflate(data[_HEADER.size :], size, len(data)))
    row_counts, flags = arrays.take("<i8", g), arrays.take("u1", g)
    counts = [arrays.take("<u4", g) for _ in _LISTS]
    for what, found, total in zip(_LISTS, counts, (s, c, r, f, p), strict=True):
        if int(found.sum(dtype=np.uint64)) != total:
            raise FormatError(f"the groups have {found.sum(dtype=np.uint64)} {what}, the header says {total}")
    sources = np.cumsum(arrays.take("<i4", s).astype(np.int64) + 1) - 1
    if s and (int(sources.min()) < 0 or int(sources.max()) >= len(before)):
        raise FormatError(f"groups are made of others up to {sources.max()}, of which there are {len(before)}")
    changed = zip(arrays.take("<u4", c).tolist(), arrays.take("<u8", c).tolist(), strict=True)
    removed = arrays.take("<u4", r).tolist()
    added = zip(arrays.take("<u8", f).tolist(), arrays.take("<u8", f).tolist(), strict=True)
    lists = (sources.tolist(), list(changed), removed, list(added), arrays.take("<u8", p).tolist())
    rows_of, *parts = (_split(found, many.tolist()) for found, many in zip(lists, counts, strict=True))
    changes = map(_GroupChange, *parts, (flags & _ALL_PARTITIONS).astype(bool).tolist(), row_counts.tolist())
    groups = tuple(
        change.applied_to([before[row] for row in of], bool(flag & _EXACT))
        for of, flag, change in zip(rows_of, flags.tolist(), changes, strict=True)
    )
    dropped = frozenset(arrays.take("<i4", d).tolist())
    thetas = dict(zip(arrays.take("<i4", t).tolist(), arrays.take("<u8", t).tolist(), strict=True))
    if any(not 1 <= theta <= MAX_THETA for theta in thetas.values()):
        raise FormatError("a threshold is out of range")
    hashes = _hashes(arrays, k, n, width)
    return SamplePiece(groups, tuple(map(tuple, rows_of)), thetas, dropped, hashes, rows)


def _hashes(arrays: _Arrays, k: int, n: int, width: int) -> ChangedHashes:
    columns, counts = arrays.take("<i4", k), arrays.take("<u4", k)
    if int(counts.sum(dtype=np.uint64)) != n:
        raise FormatError(f"the columns have {counts.sum(dtype=np.uint64)} changed hashes, the header says {n}")
    if np.any(columns[1:] <= columns[:-1]):
        raise FormatError("the columns of changed hashes do not ascend")
    values = arrays.take("<u8", n)
    replaced = np.unpackbits(arrays.take("u1", (n + 7) // 8), count=n, bitorder="little").view(np.bool_)
    field_ids = np.repeat(columns, counts).astype(np.int32)
    if np.any((values[1:] <= values[:-1]) & (field_ids[1:] == field_ids[:-1])) or (
        n and int(values.max()) >= MAX_THETA
    ):
        raise FormatError("the changed hashes of a column do not ascend below the threshold")
    return ChangedHashes(field_ids, values, replaced, arrays.take("u1", n * width).reshape(n, width))


def _split(items: list[Any], counts: Iterable[int]) -> list[tuple[Any, ...]]:
    at, found = 0, []
    for count in counts:
        found.append(tuple(items[at : (at := at + count)]))
    return found


def encode_gone_rows(piece: RowPiece) -> bytes:
    """Encode which sampled rows are gone."""
    files, rows = sorted(piece.gone_files), piece.gone_rows
    arrays = (np.array(files, "<u8"), rows["priority"], rows["file"], rows["position"])
    frame = compress_zstd(b"".join(array.tobytes() for array in arrays))
    return _GONE_HEADER.pack(VERSION, len(files), len(rows)) + frame


def decode_gone_rows(data: bytes | memoryview, added: RowSample, *, location: str = "") -> RowPiece:
    """Decode which sampled rows are gone.

    Args:
        data: The result of `encode_gone_rows`.
        added: The rows that come.
        location: The file, for messages.

    Raises:
        FormatError: The bytes are not valid.
        UnsupportedError: A newer version wrote them.
    """
    try:
        view = memoryview(data)
        version, files, rows = _GONE_HEADER.unpack(part(view, 0, _GONE_HEADER.size))
        if version != VERSION:
            raise UnsupportedError(f"gone rows of version {version}; this version reads {VERSION}")
        arrays = _Arrays(inflate(view[_GONE_HEADER.size :], 8 * files + ROW_ID.itemsize * rows, len(view)))
    except FormatError as error:
        raise FormatError(error.message, location=location, rule=_ROWS_RULE) from error
    keys = arrays.take("<u8", files)
    gone: npt.NDArray[Any] = np.empty(rows, ROW_ID)
    for name, dtype in (("priority", "<u4"), ("file", "<u8"), ("position", "<i8")):
        gone[name] = arrays.take(dtype, rows)
    return RowPiece(added, frozenset(keys.tolist()), gone)
