"""A random sample of a table's rows, from which the distribution of values is known: histograms, shares of conditions.

Every row gets a random *priority* when its file is written. The sample has the rows whose priorities are below a
threshold, the smallest ones: so the union of the samples of two files is that of their rows, and a file's rows leave
the sample with the file. Each sampled row says which file and position it is from, so that deleted rows leave it too.
A file that was not sampled, or lost rows without saying which, is *blurred*: its share of the sample is not right.

As bytes, little-endian, in this order:

- 64 bits: the threshold, at most 2³²; then 4 numbers of 32 bits: rows n, blurred files b, bytes of the frame, and bytes
  of its content;
- one Zstandard frame: uint64[b] keys of blurred files, uint32[n] priorities, uint64[n] keys of files, int64[n]
  positions, and an Arrow IPC stream of the rows, whose columns are named by field id.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.compression import compress_zstd, decompress_zstd
from skerry.errors import FormatError, SkerryError
from skerry.table.rows.schema import Leaf

__all__ = [
    "ALL_ROWS",
    "UNKNOWN_POSITION",
    "RowSample",
    "decode_row_sample",
    "encode_row_sample",
    "is_sampled",
    "united",
]

ALL_ROWS: Final = 1 << 32
"""The threshold of a sample that has all rows; priorities are below."""
UNKNOWN_POSITION: Final = -1
_MOST_ROWS: Final = 4096
_LEAST_ROWS: Final = 64
_MOST_VALUES: Final = 1 << 17

_RULE: Final = "docs/formats/samples.md § 4"
_HEADER: Final = struct.Struct("<Q4I")
_MOST_BYTES: Final = 1 << 28

_Priorities: TypeAlias = npt.NDArray[np.uint32]
_Keys: TypeAlias = npt.NDArray[np.uint64]
_Positions: TypeAlias = npt.NDArray[np.int64]


def is_sampled(type_: pa.DataType) -> bool:
    """Whether values of a type are kept in samples of rows: numbers, times, texts, truth values."""
    kinds = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal128,
        pa.types.is_date,
        pa.types.is_time,
        pa.types.is_timestamp,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    return any(kind(type_) for kind in kinds)


def most_rows(column_count: int) -> int:
    """How many rows a sample has at most: fewer in tables of very many columns."""
    return min(_MOST_ROWS, max(_LEAST_ROWS, _MOST_VALUES // max(column_count, 1)))


@dataclass(frozen=True, slots=True, eq=False)
class RowSample:
    """Randomly chosen rows.

    Args:
        theta: Threshold, at most 2³²: all rows with priorities below it are in the sample.
        priorities: uint32[n], ascending.
        files: uint64[n], by `key_of`, the file of each row; 0 while it is not known.
        positions: int64[n], its position in the file, -1 if unknown.
        values: The rows; columns are named by field id.
        blurred: Keys of the files that were not sampled, or have lost unknown rows since.
    """

    theta: int = ALL_ROWS
    priorities: _Priorities = field(default_factory=lambda: np.empty(0, np.uint32))
    files: _Keys = field(default_factory=lambda: np.empty(0, np.uint64))
    positions: _Positions = field(default_factory=lambda: np.empty(0, np.int64))
    values: pa.Table = field(default_factory=lambda: pa.table({}))
    blurred: frozenset[int] = frozenset()

    def __reduce__(self) -> tuple[Any, ...]:
        return decode_row_sample, (encode_row_sample(self),)

    def __len__(self) -> int:
        return len(self.priorities)

    @property
    def size_bytes(self) -> int:
        """The memory it takes."""
        return 20 * len(self) + int(self.values.nbytes)

    def of_file(self, key: int) -> RowSample:
        """As the sample of one file."""
        return replace(self, files=np.full(len(self), key, np.uint64))

    def below(self, theta: int) -> RowSample:
        """Only rows whose priorities are below a threshold."""
        if theta >= self.theta:
            return self
        kept = int(np.searchsorted(self.priorities, theta))
        return replace(self._at(slice(0, kept)), theta=theta)

    def only_files(self, is_kept: Callable[[int], bool]) -> RowSample:
        """Only rows of some files, by their keys."""
        found, places = np.unique(self.files, return_inverse=True)
        kept = np.fromiter(map(is_kept, found.tolist()), np.bool_, len(found))
        blurred = frozenset(filter(is_kept, self.blurred))
        if kept.all():
            return self if len(blurred) == len(self.blurred) else replace(self, blurred=blurred)
        return replace(self._at(np.flatnonzero(kept[places])), blurred=blurred)

    def only_rows(self, is_kept: npt.NDArray[np.bool_]) -> RowSample:
        """Only some rows, bool[n]."""
        return self if is_kept.all() else self._at(np.flatnonzero(is_kept))

    def without_rows(self, gone: Mapping[int, _Positions]) -> RowSample:
        """Remove deleted rows.

        Args:
            gone: By key of the file, the positions of its deleted rows, ascending.
        """
        is_gone = np.zeros(len(self), np.bool_)
        unknown = set()
        for key, positions in gone.items():
            rows = np.flatnonzero(self.files == np.uint64(key))
            mine = self.positions[rows]
            if (mine == UNKNOWN_POSITION).any():
                unknown.add(key)
            is_gone[rows[_are_in(mine, positions)]] = True
        left = self._at(np.flatnonzero(~is_gone)) if is_gone.any() else self
        return left.with_blurred(unknown)

    def with_blurred(self, files: Collection[int]) -> RowSample:
        """Record that unknown rows of some files are gone."""
        return replace(self, blurred=self.blurred | frozenset(files)) if files else self

    def renamed(self, names: Mapping[int, int]) -> RowSample:
        """The same rows, whose files have other keys now; all of them are in `names`."""
        found, places = np.unique(self.files, return_inverse=True)
        keys = np.array([names[key] for key in found.tolist()], np.uint64)
        return replace(
            self,
            files=keys[places] if len(keys) else self.files,
            blurred=frozenset(names[key] for key in self.blurred if key in names),
        )

    def with_columns(self, field_ids: Iterable[int]) -> RowSample:
        """Keep only some columns."""
        wanted = [name for name in map(str, field_ids) if name in self.values.column_names]
        return self if wanted == self.values.column_names else replace(self, values=self.values.select(wanted))

    def with_column(self, field_id: int, value: pa.Scalar) -> RowSample:
        """Add a column that has the same value in all rows, or replace one."""
        name = str(field_id)
        values = self.values.drop_columns(name) if name in self.values.column_names else self.values
        column = pa.nulls(len(self), value.type) if not value.is_valid else pa.repeat(value, len(self))
        return replace(self, values=values.append_column(name, column) if len(self) else values)

    def table(self, columns: Iterable[Leaf]) -> pa.Table:
        """The values of top-level columns, by their names and in their types; those that the sample lacks are left out.

        Args:
            columns: The table's columns as they are now.
        """
        found = {}
        for leaf in columns:
            if len(leaf.path) > 1 or str(leaf.field_id) not in self.values.column_names:
                continue
            try:
                found[leaf.name] = self.values.column(str(leaf.field_id)).cast(leaf.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
        return pa.table(found)

    def _at(self, rows: Any) -> RowSample:
        values = (
            self.values.slice(0, rows.stop)
            if isinstance(rows, slice)
            else self.values.take(pa.array(rows, pa.int64()))
            if self.values.num_columns
            else self.values
        )
        return replace(
            self,
            priorities=self.priorities[rows],
            files=self.files[rows],
            positions=self.positions[rows],
            values=values,
        )


def united(samples: Sequence[RowSample]) -> RowSample:
    """The sample of the rows of several: of the columns that all of them have."""
    theta = min((sample.theta for sample in samples), default=ALL_ROWS)
    blurred = frozenset().union(*(sample.blurred for sample in samples))
    parts = [part for sample in samples if len(part := sample.below(theta))]
    if not parts:
        return RowSample(theta, blurred=blurred)
    if len(parts) == 1:
        return replace(parts[0], theta=theta, blurred=blurred)
    tables = _alike([part.values for part in parts])
    priorities = np.concatenate([part.priorities for part in parts])
    order = np.argsort(priorities, kind="stable")
    limit = most_rows(tables[0].num_columns)
    if len(order) > limit:
        theta = int(priorities[order[limit]])
        order = order[: int(np.searchsorted(priorities[order], theta))]
    values = pa.concat_tables(tables)
    return RowSample(
        theta,
        priorities[order],
        np.concatenate([part.files for part in parts])[order],
        np.concatenate([part.positions for part in parts])[order],
        values.take(pa.array(order)).combine_chunks() if values.num_columns else values,
        blurred,
    )


def _alike(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """The columns that all tables have, in the types of the last one."""
    kept: dict[str, list[pa.ChunkedArray]] = {}
    last = tables[-1]
    if all(table.schema.equals(last.schema) for table in tables):
        return list(tables)
    for name in last.column_names:
        try:
            kept[name] = [table.column(name).cast(last.schema.field(name).type) for table in tables]
        except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return [pa.table({name: columns[at] for name, columns in kept.items()}) for at in range(len(tables))]


# Bytes ----------------------------------------------------------------------------------------------------------------


def encode_row_sample(sample: RowSample) -> bytes:
    """Encode a sample of rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, sample.values.schema) as writer:
        writer.write_table(sample.values.combine_chunks())
    content = b"".join(
        (
            np.array(sorted(sample.blurred), "<u8").tobytes(),
            sample.priorities.astype("<u4").tobytes(),
            sample.files.astype("<u8").tobytes(),
            sample.positions.astype("<i8").tobytes(),
            sink.getvalue(),
        )
    )
    frame = compress_zstd(content)
    return _HEADER.pack(sample.theta, len(sample), len(sample.blurred), len(frame), len(content)) + frame


def decode_row_sample(data: bytes | memoryview, *, location: str = "") -> RowSample:
    """Decode a sample of rows.

    Args:
        data: The result of `encode_row_sample`.
        location: The file, for messages.

    Raises:
        FormatError: The bytes are not a valid sample.
    """
    try:
        return _decode(memoryview(data))
    except SkerryError as error:
        raise FormatError(error.message, location=location, rule=_RULE) from error
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"the sampled rows are corrupt: {error}", location=location, rule=_RULE) from error


def _decode(data: memoryview) -> RowSample:
    if len(data) < _HEADER.size:
        raise FormatError(f"a sample of rows has at least {_HEADER.size} bytes, this has {len(data)}")
    theta, rows, blurred, frame_bytes, content_bytes = _HEADER.unpack(data[: _HEADER.size])
    frame = bytes(data[_HEADER.size :])
    fixed = 8 * blurred + 20 * rows
    if theta > ALL_ROWS or len(frame) != frame_bytes or not fixed <= content_bytes <= _MOST_BYTES:
        raise FormatError(
            f"{rows} rows and {blurred} files in {content_bytes} bytes, a frame of {frame_bytes} where {len(frame)} are"
        )
    content = bytes(decompress_zstd(frame, max_bytes=content_bytes))
    if len(content) != content_bytes:
        raise FormatError(f"a frame holds {len(content)} bytes, {content_bytes} are declared")
    at = 8 * blurred
    keys = np.frombuffer(content, "<u8", blurred)
    priorities = np.frombuffer(content, "<u4", rows, at)
    files = np.frombuffer(content, "<u8", rows, at + 4 * rows)
    positions = np.frombuffer(content, "<i8", rows, at + 12 * rows)
    with pa.ipc.open_stream(pa.py_buffer(content).slice(fixed)) as stream:
        values = stream.read_all()
    values.validate(full=True)
    if values.num_columns and values.num_rows != rows:
        raise FormatError(f"a sample of {rows} rows has values of {values.num_rows}")
    if not all(name.isdecimal() for name in values.column_names):
        raise FormatError(f"columns of a sample are field ids, found {values.column_names[:3]}")
    if rows and (int(priorities.max()) >= theta or np.any(priorities[1:] < priorities[:-1])):
        raise FormatError("priorities do not ascend to the threshold")
    return RowSample(theta, priorities, files, positions, values, frozenset(keys.tolist()))


def _are_in(some: _Positions, ascending: _Positions) -> npt.NDArray[np.bool_]:
    """Which of a few positions are among many."""
    if not len(ascending):
        return np.zeros(len(some), np.bool_)
    places = np.minimum(np.searchsorted(ascending, some), len(ascending) - 1)
    return np.asarray(ascending[places] == some)
