"""Looking keys up in columns of maps: the metrics of files by field id."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["METRIC_COLUMNS", "FieldValues", "MapColumns", "metrics_of_field"]

METRIC_COLUMNS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
"""The columns that pruning by column metrics needs."""


class MapColumns:
    """The values of many keys in the same maps.

    The files of a manifest mostly have metrics of the same columns: then the values of a key are a stride.

    Args:
        maps: Maps from int32.
    """

    def __init__(self, maps: pa.MapArray) -> None:
        self._items = maps.items
        self._count = len(maps)
        offsets = maps.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
        keys = maps.keys.to_numpy(zero_copy_only=False)
        lengths = np.diff(offsets)
        self._starts: npt.NDArray[np.int64] | None = None
        if maps.null_count:
            lengths = np.where(maps.is_null().to_numpy(zero_copy_only=False), 0, lengths)
        width = int(lengths[0]) if self._count else 0
        if (lengths == width).all():
            matrix = keys[offsets[0] : offsets[0] + self._count * width].reshape(self._count, width)
            if (matrix == matrix[:1]).all():
                self._starts = offsets[:-1]
                self._place = {int(key): number for number, key in reversed(list(enumerate(matrix[:1].reshape(-1))))}
                return
        rows = np.repeat(np.arange(self._count), lengths)
        index = np.arange(len(rows)) + np.repeat(offsets[:-1] - np.cumsum(lengths) + lengths, lengths)
        order = np.argsort(keys[index], kind="stable")[::-1]  # so that the first of equal keys wins
        self._rows, self._index = rows[order], index[order]
        self._descending = -keys[index][order].astype(np.int64)

    def _found(self, key: int) -> npt.NDArray[np.int64]:
        """int64[maps] The index of a key's value among those of all maps; -1 if it is missing."""
        found = np.full(self._count, -1, np.int64)
        if self._starts is not None:
            return self._starts + self._place[key] if key in self._place else found
        first, last = np.searchsorted(self._descending, [-key, -key + 1])
        found[self._rows[first:last]] = self._index[first:last]
        return found

    def values(self, key: int) -> pa.Array:
        """The value of a key in every map; null if it is missing."""
        found = self._found(key)
        return self._items.take(pa.array(found, mask=found < 0))

    def counts(self, key: int) -> npt.NDArray[np.int64]:
        """int64[maps] A count; -1 if it is missing."""
        return _counts(self.values(key))


def metrics_of_field(entries: pa.RecordBatch, field_id: int) -> pa.RecordBatch:
    """The metrics of one column of the table, each as a column of its own, which `FieldValues` finds.

    Args:
        entries: Entries with `METRIC_COLUMNS`.
        field_id: The column of the table.
    """
    values = {_name(name, field_id): MapColumns(entries.column(name)).values(field_id) for name in METRIC_COLUMNS}
    return pa.RecordBatch.from_arrays(list(values.values()), names=list(values))


class FieldValues:
    """The metrics of a manifest's entries by field id, from maps or from columns that `metrics_of_field` has made.

    Args:
        entries: The entries.
    """

    def __init__(self, entries: pa.RecordBatch) -> None:
        self._entries = entries
        self._maps: dict[str, MapColumns] = {}

    def values(self, name: str, field_id: int) -> pa.Array:
        """A metric of every entry; null if it is missing.

        Args:
            name: One of `METRIC_COLUMNS`.
            field_id: The column of the table.
        """
        alone = self._entries.schema.get_field_index(_name(name, field_id))
        if alone >= 0:
            return self._entries.column(alone)
        if name not in self._maps:
            self._maps[name] = MapColumns(self._entries.column(name))
        return self._maps[name].values(field_id)

    def counts(self, name: str, field_id: int) -> npt.NDArray[np.int64]:
        """int64[entries] A count; -1 if it is missing."""
        return _counts(self.values(name, field_id))


def _name(name: str, field_id: int) -> str:
    return f"{name}.{field_id}"


def _counts(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(values, -1).to_numpy(zero_copy_only=False), np.int64)
