"""Bucket pruning: which buckets can hold matching rows, if a condition fixes the bucket key.

Spec: docs/formats/paimon.md § 7.2, § 9.3.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.paimon.metadata.buckets import assign_buckets
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.entry_columns import same_type
from skerry.paimon.values.binary_row import encode_rows
from skerry.paimon.values.byte_spans import Longs
from skerry.paimon.values.types import AtomicType, DataField, TypeRoot
from skerry.table.predicate import Comparison, In, IsNull, Operator, Predicate
from skerry.table.predicate.arrow import arrow_array

__all__ = ["BucketPruner"]

_MAX_KEYS: Final = 1_000
"""Maximum number of bucket keys to try; conditions that leave more do not prune."""


@dataclass(frozen=True)
class BucketPruner:
    """Finds the buckets that can hold matching rows.

    Args:
        state: The table, with the schema of the scan.
        conjuncts: Predicates that matching rows satisfy one and all.
    """

    state: PaimonState
    conjuncts: tuple[Predicate, ...]

    def may_hold(self, buckets: Longs, totals: Longs, schema_ids: Longs) -> npt.NDArray[np.bool_]:
        """Which files may hold matching rows, by their bucket.

        Args:
            buckets: int64[files] Their buckets.
            totals: int64[files] Number of buckets when they were written.
            schema_ids: int64[files] The schemas that they were written with.
        """
        may = np.full(len(buckets), True)
        if self._keys is None:
            return may
        known = np.isin(schema_ids, [number for number in np.unique(schema_ids) if self._hashes_alike(int(number))])
        for total in np.unique(totals[totals > 0]):
            wanted = assign_buckets(self.state.options.bucket_function, self._types, self._keys, int(total))
            may &= (totals != total) | ~known | np.isin(buckets, wanted)
        return may

    @property
    def prunes(self) -> bool:
        """Whether the condition restricts the bucket key."""
        return self._keys is not None

    def hashes(self, schema_ids: Longs) -> npt.NDArray[np.int32] | None:
        """The hashes of the possible bucket keys of matching rows.

        Args:
            schema_ids: int64[files] The schemas that files were written with.

        Returns:
            int32[keys] The hashes; None if the condition does not restrict them, or keys had other types in a schema.
        """
        if self._keys is None or not all(self._hashes_alike(int(number)) for number in np.unique(schema_ids)):
            return None
        return encode_rows(self._types, self._keys).hashes()

    @cached_property
    def _fields(self) -> tuple[DataField, ...]:
        schema = self.state.schema
        return schema.fields_of(schema.bucket_keys)

    @property
    def _types(self) -> list[Any]:
        return [field.type for field in self._fields]

    def _hashes_alike(self, schema_id: int) -> bool:
        """Whether keys were hashed with their current types."""
        schema: TableSchema = self.state.schema_by_id(schema_id)
        types = {field.id: field.type for field in schema.fields}
        return all(field.id in types and same_type(types[field.id], field.type) for field in self._fields)

    @cached_property
    def _keys(self) -> list[pa.Array] | None:
        """The possible bucket keys of matching rows, as columns; None if there are too many."""
        if not self._fields or not self.conjuncts:
            return None
        values = [_values_of(field, self.conjuncts) for field in self._fields]
        if any(found is None for found in values):
            return None
        choices = [found for found in values if found is not None]
        if math.prod(map(len, choices)) > _MAX_KEYS:
            return None
        keys: Iterable[Sequence[Any]] = zip(*itertools.product(*choices), strict=True)
        arrow = self.state.arrow_schema
        return [
            arrow_array(tuple(column), arrow.field(field.name).type)
            for field, column in zip(self._fields, keys, strict=True)
        ]


def _values_of(field: DataField, conjuncts: Iterable[Predicate]) -> tuple[Any, ...] | None:
    """The possible values of a column in matching rows, if the condition lists them; else None.

    Floating-point columns have no such list: -0.0 equals 0.0, but is in another bucket.
    """
    if isinstance(field.type, AtomicType) and field.type.root in (TypeRoot.FLOAT, TypeRoot.DOUBLE):
        return None
    for conjunct in conjuncts:
        match conjunct:
            case Comparison(column, Operator.EQ, value) if column.field_id == field.id:
                return (value,)
            case In(column, values, False) if column.field_id == field.id:
                return values
            case IsNull(column, False) if column.field_id == field.id:
                return (None,)
    return None
