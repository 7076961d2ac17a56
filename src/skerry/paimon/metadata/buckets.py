"""Which bucket a row belongs to, by its bucket key.

Spec: docs/formats/paimon.md § 7.2; Paimon Java, `BucketFunction`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.kernels import kernel
from skerry.paimon.metadata.options import BucketFunction
from skerry.paimon.values.binary_row import BinaryRows, byte_spans_of, encode_rows
from skerry.paimon.values.byte_spans import Bytes, Longs
from skerry.paimon.values.types import AtomicType, PaimonType, TypeRoot

__all__ = ["assign_buckets", "buckets_of_rows", "check_bucket_key"]

_RULE: Final = "docs/formats/paimon.md § 7.2"


def assign_buckets(
    function: BucketFunction, types: Sequence[PaimonType], columns: Sequence[pa.Array], total_buckets: int
) -> npt.NDArray[np.int32]:
    """The bucket of every row.

    Args:
        function: How buckets are computed from bucket keys.
        types: Types of the bucket key's columns.
        columns: The columns, with the types that `skerry.paimon.values.arrow_types.arrow_type` returns.
        total_buckets: Number of buckets, at least 1.

    Returns:
        int32[rows].

    Raises:
        SchemaError: The function does not accept columns of these types.
    """
    check_bucket_key(function, types)
    return _FUNCTIONS[function](types, columns, total_buckets)


def buckets_of_rows(rows: BinaryRows, total_buckets: int) -> npt.NDArray[np.int32]:
    """The buckets of encoded bucket keys by the default function.

    Returns:
        int32[rows].
    """
    return (np.abs(rows.hashes().astype(np.int64)) % total_buckets).astype(np.int32)


def check_bucket_key(function: BucketFunction, types: Sequence[PaimonType]) -> None:
    """Refuse bucket keys that a function does not accept.

    Raises:
        SchemaError: The function does not accept columns of these types.
    """
    roots = [type_.root if isinstance(type_, AtomicType) else None for type_ in types]
    if function is BucketFunction.MOD and roots not in ([TypeRoot.INT], [TypeRoot.BIGINT]):
        raise SchemaError("bucket-function.type=mod needs one column of INT or BIGINT as bucket-key", rule=_RULE)
    if function is BucketFunction.HIVE:
        for root, type_ in zip(roots, types, strict=True):
            if root is None or root in (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ):
                raise SchemaError(
                    f"bucket-function.type=hive does not accept {type_} columns as bucket-key", rule=_RULE
                )


def _default(types: Sequence[PaimonType], columns: Sequence[pa.Array], total: int) -> npt.NDArray[np.int32]:
    return buckets_of_rows(encode_rows(types, columns), total)


def _mod(types: Sequence[PaimonType], columns: Sequence[pa.Array], total: int) -> npt.NDArray[np.int32]:
    values = columns[0].cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.mod(values, total).astype(np.int32)


def _hive(types: Sequence[PaimonType], columns: Sequence[pa.Array], total: int) -> npt.NDArray[np.int32]:
    state = np.zeros(len(columns[0]), np.int32)
    for type_, column in zip(types, columns, strict=True):
        assert isinstance(type_, AtomicType)
        hashes = np.where(column.is_null().to_numpy(zero_copy_only=False), 0, _hive_hashes(type_.root, column))
        state = state * np.int32(31) + hashes.astype(np.int32)  # wraps like Java's
    return (state & np.int32(0x7FFFFFFF)) % np.int32(total)


_FUNCTIONS: Final[dict[BucketFunction, Callable[[Any, Any, int], npt.NDArray[np.int32]]]] = {
    BucketFunction.DEFAULT: _default,
    BucketFunction.MOD: _mod,
    BucketFunction.HIVE: _hive,
}


# Hive's hashes ------------------------------------------------------------------------------------------------------


def _hive_hashes(root: TypeRoot, column: pa.Array) -> npt.NDArray[np.int32]:
    """int32[n] Hive's hash of every value."""
    if root in (TypeRoot.CHAR, TypeRoot.VARCHAR, TypeRoot.BINARY, TypeRoot.VARBINARY):
        hashes = np.empty(len(column), np.int32)
        _hive_bytes(*byte_spans_of(column), hashes)
        return hashes
    if root is TypeRoot.DECIMAL:
        distinct = column.dictionary_encode()
        of_values = np.array([_hive_decimal(value) for value in distinct.dictionary.to_pylist()] or [0], np.int32)
        return of_values[distinct.indices.fill_null(0).to_numpy(zero_copy_only=False)]
    if root is TypeRoot.FLOAT:
        return _canonical(column, np.float32).view(np.int32)
    if root is TypeRoot.DOUBLE:
        return _fold(_canonical(column, np.float64).view(np.int64))
    if root is TypeRoot.BIGINT:
        return _fold(column.fill_null(0).to_numpy(zero_copy_only=False))
    if root in (TypeRoot.DATE, TypeRoot.TIME):
        column = column.cast(pa.int32())
    return column.cast(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False)


def _canonical(column: pa.Array, dtype: type[np.floating[Any]]) -> npt.NDArray[Any]:
    """Floats with canonical zero and NaN."""
    values = column.fill_null(0).to_numpy(zero_copy_only=False)
    return np.where(values == 0, dtype(0), np.where(np.isnan(values), dtype(np.nan), values)).astype(dtype)


def _fold(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Java's `Long.hashCode`."""
    return (values ^ (values.view(np.uint64) >> np.uint64(32)).view(np.int64)).astype(np.int32)


def _hive_decimal(value: Decimal | None) -> int:
    """Java's `BigDecimal.hashCode` of a decimal without trailing zeros."""
    if not value:
        return 0
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    number = int("".join(map(str, digits)))
    scale = -exponent
    while scale > 0 and number % 10 == 0:
        number, scale = number // 10, scale - 1
    magnitude = 0
    for shift in range((number.bit_length() - 1) // 32, -1, -1):
        magnitude = magnitude * 31 + (number >> (32 * shift) & 0xFFFFFFFF)
    folded = (31 * (-magnitude if sign else magnitude) + scale) & 0xFFFFFFFF
    return folded - (1 << 32) if folded >= 1 << 31 else folded


@kernel("int64(uint8[::1], int64[::1], int64[::1], out int32[::1])")
def _hive_bytes(data: Bytes, starts: Longs, lengths: Longs, hashes: Any) -> int:
    for i in range(len(starts)):
        state = np.int64(0)
        for j in range(lengths[i]):
            byte = np.int64(data[starts[i] + j])
            state = (state * 31 + (byte ^ 0x80) - 0x80) & 0xFFFFFFFF
        hashes[i] = np.int32(state)
    return len(starts)
