"""Records that expire: full compactions of primary-key tables leave out those whose time is too long ago.

Only where no older level is left below: elsewhere an older record of the key would come back.

Spec: docs/formats/paimon.md § 13.8.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import SchemaError
from skerry.paimon.manifests.manifest import DataFileMeta
from skerry.paimon.metadata.option_values import parse_duration_ms
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.values.binary_reading import decode_rows
from skerry.paimon.values.types import AtomicType, DataField, TypeRoot

__all__ = ["RecordExpiry"]

_TIME: Final = "record-level.expire-time"
_FIELD: Final = "record-level.time-field"
_TIMESTAMPS: Final = (TypeRoot.TIMESTAMP, TypeRoot.TIMESTAMP_LTZ)
_LEAST_MILLIS: Final = 10**12
"""From here on a BIGINT has milliseconds, not seconds."""
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True, slots=True)
class RecordExpiry:
    """Which records have expired; picklable.

    Args:
        column: The column with their time.
        border_s: Those before this moment have, in seconds since 1970.
    """

    column: DataField
    border_s: int

    @classmethod
    def of(cls, schema: TableSchema) -> RecordExpiry | None:
        """The rule of a table's options as of now; None if they have none, or the table has no primary key.

        Raises:
            SchemaError: The column is not named, unknown, or of another type; or the duration is invalid.
        """
        text = schema.options.get(_TIME, "").strip()
        if not text or not schema.primary_keys:
            return None
        named = schema.options.get(_FIELD, "").strip()
        if not named:
            raise SchemaError(f"table option {_TIME} needs {_FIELD}")
        column = schema.field(named)
        root = column.type.root if isinstance(column.type, AtomicType) else None
        if root not in (TypeRoot.INT, TypeRoot.BIGINT, *_TIMESTAMPS):
            raise SchemaError(
                f"table option {_FIELD}={named}: expected INT, BIGINT or a timestamp, found {column.type}"
            )
        return cls(column, int(time.time()) - parse_duration_ms(_TIME, text) // 1000)

    def expired(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """bool[n] Which values of the column are too long ago; nulls are not."""
        known = values.is_valid().to_numpy(zero_copy_only=False)
        stamps = pa.types.is_timestamp(values.type)
        numbers = (values.view(pa.int64()) if stamps else values).fill_null(0).to_numpy(zero_copy_only=False)
        seconds = numbers.astype(np.int64)
        if stamps:
            seconds = np.floor_divide(seconds, _PER_SECOND[values.type.unit])
        elif pa.types.is_int64(values.type):
            seconds = np.where(seconds >= _LEAST_MILLIS, seconds // 1000, seconds)
        return known & (seconds < self.border_s)

    def has_expired(self, state: PaimonState, file: DataFileMeta) -> bool:
        """Whether a file has expired records, by its statistics; unknown ones count as none, as in Java."""
        then = state.schema_by_id(file.schema_id)
        names = then.arrow_schema.names if file.value_stats_cols is None else file.value_stats_cols
        fields = [then.field(name) for name in names]
        places = [place for place, field in enumerate(fields) if field.id == self.column.id]
        if not places or fields[places[0]].type != self.column.type:
            return False
        columns = decode_rows([field.type for field in fields], [file.value_stats.min_values])
        return bool(self.expired(columns[places[0]]).any())
