"""The byte layout of a sample of rows.

Little-endian, in this order:

- 64 bits: the threshold, at most 2³²; then 4 numbers of 32 bits: rows n, blurred files b, bytes of the frame, and bytes
  of its content;
- one Zstandard frame: uint64[b] keys of blurred files, uint32[n] priorities, uint64[n] keys of files, int64[n]
  positions, and an Arrow IPC stream of the rows, whose columns are named by field id.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from skerry.compression import compress_zstd, decompress_zstd
from skerry.errors import FormatError, SkerryError
from skerry.table.statistics.row_sample import ALL_ROWS, RowSample

__all__ = ["decode_row_sample", "encode_row_sample"]

_RULE = "docs/formats/samples.md § 4"
_HEADER = struct.Struct("<Q4I")
_MOST_BYTES = 1 << 28


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
