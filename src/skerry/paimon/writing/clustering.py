"""Sort all rows of a partition of an append table: by columns, or along a curve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from skerry.errors import SchemaError, UnsupportedError
from skerry.paimon.metadata.state import PaimonState
from skerry.table.rows.external_sort import Order, sorted_batches
from skerry.table.rows.sorting import SortTerm, parse_term, sort_indices
from skerry.table.rows.z_order import ZOrder, check_z_order
from skerry.table.summaries import CompactOptions

__all__ = ["Clustering"]


@dataclass(frozen=True, slots=True)
class Clustering:
    """An order of rows; picklable.

    Args:
        terms: What rows are sorted by; with `is_curve`, the columns of a curve.
        is_curve: Whether they follow a Z-curve.
        is_hilbert: Whether it is a Hilbert curve instead.
    """

    terms: tuple[SortTerm, ...]
    is_curve: bool = False
    is_hilbert: bool = False

    @classmethod
    def of(cls, state: PaimonState, how: CompactOptions) -> Clustering | None:
        """The order that was asked for; None if none was.

        Raises:
            SchemaError: A column does not fit.
            UnsupportedError: The rows of such a table have an order already.
        """
        sort_by, curve = how.sort_by, how.curve
        if sort_by is None and curve is None:
            return None
        if state.schema.primary_keys:
            raise UnsupportedError("rows of a primary-key table are sorted by their key", location=state.name)
        if state.options.bucket != -1:
            raise UnsupportedError(
                "rows of a table with buckets keep the order in which they came", location=state.name
            )
        terms = tuple(map(parse_term, sort_by)) if sort_by is not None else tuple(map(SortTerm, curve or ()))
        for term in terms:
            type_ = state.arrow_schema.field(state.schema.field(term.source).name).type
            if pa.types.is_nested(type_) or isinstance(type_, pa.BaseExtensionType):
                raise SchemaError(f"column {term.source!r} of type {type_} cannot be sorted by")
        if sort_by is None:
            check_z_order([term.source for term in terms])
        elif not terms:
            raise SchemaError("sort_by needs a column")
        return cls(terms, sort_by is None, how.hilbert is not None)

    @property
    def columns(self) -> list[str]:
        """The columns, each once."""
        return list(dict.fromkeys(term.source for term in self.terms))

    def batches(
        self,
        read: Callable[[pa.Schema], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
        *,
        most_rows: int,
        file_bytes: int,
        range_bytes: int,
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows in order.

        Args:
            read: Reads columns of all rows.
            schema: The columns to yield, those of the order among them.
            most_rows: The number of rows, or more.
            file_bytes: The target size of files.
            range_bytes: Bytes of rows to sort in memory at a time.
        """
        keys = pa.schema([schema.field(name) for name in self.columns])
        return sorted_batches(
            read(keys),
            read(schema),
            self._order,
            key_schema=keys,
            most_rows=most_rows,
            file_bytes=file_bytes,
            range_bytes=range_bytes,
        )

    def _order(self, sample: pa.Table) -> Order:
        names = [term.source for term in self.terms]
        if not self.is_curve:
            return lambda rows: (
                sort_indices([rows[name] for name in names], self.terms, len(rows)).to_numpy().astype(np.int64)
            )
        curve = ZOrder.of([sample[name] for name in names], is_hilbert=self.is_hilbert)
        return lambda rows: np.argsort(curve.keys([rows[name] for name in names]), kind="stable")
