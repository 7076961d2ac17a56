"""Records of keys and numbers, one after the other: (key number…)*.

Spec: docs/formats/paimon.md § 12.4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skerry.paimon.file_index.keys import key_form
from skerry.paimon.file_index.sorted_keys import SortedKeys

__all__ = ["packed_records"]

_Longs = npt.NDArray[np.int64]


def packed_records(keys: SortedKeys, numbers: Sequence[_Longs]) -> tuple[bytes, _Longs]:
    """Lay out a record per key: the key, a text after its length, and its numbers as int32.

    Args:
        keys: The keys.
        numbers: int64[keys] each; they fit 32 bits.

    Returns:
        The records, and int64[keys + 1] where each starts, with the end.
    """
    encoded = keys.encoded()
    parts = [_int32s(found) for found in numbers]
    if key_form(keys.type) is None:
        parts = [_int32s(pc.binary_length(encoded).to_numpy(zero_copy_only=False)), encoded, *parts]
    else:
        parts = [encoded, *parts]
    joined = pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary())) if len(keys) else encoded
    _, offsets, data = joined.buffers()
    starts = np.frombuffer(offsets, np.int64)[: len(keys) + 1] if len(keys) else np.zeros(1, np.int64)
    return (data.to_pybytes() if data is not None and len(keys) else b""), starts


def _int32s(numbers: npt.NDArray[np.generic]) -> pa.Array:
    """large_binary[n] Numbers as four bytes each."""
    offsets = np.arange(len(numbers) + 1, dtype=np.int64) * 4
    data = np.asarray(numbers).astype(">i4").tobytes()
    return pa.Array.from_buffers(pa.large_binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
