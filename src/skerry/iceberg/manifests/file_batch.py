"""Files of one partition spec as columns, passed between the steps of planning."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.errors import FormatError
from skerry.iceberg.manifests.avro_schemas import columns_by_id
from skerry.iceberg.metadata.partition_spec import PartitionSpec
from skerry.table.rows.schema import FIELD_ID_KEY

if TYPE_CHECKING:
    from skerry.table.predicate import FieldMetrics  # not needed to list files without a condition

__all__ = ["FileBatch", "conform_partition"]


@dataclass(frozen=True, slots=True)
class FileBatch:
    """Live files of one manifest.

    Args:
        spec: Their partition spec.
        files: Columns of `skerry.iceberg.manifests.reader.COLUMNS`; `partition` has the fields of `spec` in its order.
        matches_all: bool[files] Whether metrics prove that every row matches.
        keys: Metrics by field id of columns that equality deletes compare.
    """

    spec: PartitionSpec
    files: pa.RecordBatch
    matches_all: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    keys: Mapping[int, FieldMetrics] = field(default_factory=dict)

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """A column of integers without nulls."""
        return self.files.column(name).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def conform_partition(partition: pa.StructArray, spec: PartitionSpec, location: str) -> pa.StructArray:
    """The partition values of a manifest, in the order and with the names of the spec.

    Args:
        partition: As in the manifest; its fields carry ids, by which they are found.
        spec: The partition spec.
        location: The manifest, for messages.

    Raises:
        FormatError: A field of the spec is missing.
    """
    found = columns_by_id(pa.RecordBatch.from_struct_array(partition))
    missing = [field for field in spec.fields if field.field_id not in found]
    if missing:
        raise FormatError(
            f"partition field {missing[0].name!r} ({missing[0].field_id}) is missing",
            location=location,
            rule="Iceberg spec, Manifests",
        )
    if not spec.fields:
        return pa.Array.from_buffers(pa.struct([]), len(partition), [None], children=[])
    columns = [found[field.field_id] for field in spec.fields]
    fields = [
        pa.field(field.name, column.type, metadata={FIELD_ID_KEY: str(field.field_id).encode()})
        for field, column in zip(spec.fields, columns, strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=fields)
