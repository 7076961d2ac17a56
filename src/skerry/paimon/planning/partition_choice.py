"""Choosing whole partitions by a condition on partition keys."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

import pyarrow as pa

from skerry.errors import UnsupportedError
from skerry.paimon.metadata.schema import TableSchema
from skerry.paimon.values.binary_reading import decode_rows
from skerry.table.arguments import Condition
from skerry.table.predicate import Constant, Predicate, columns_of, parse, row_mask

__all__ = ["PartitionChoice", "names_partitions", "partitions_where", "whole_partitions"]

PartitionChoice: TypeAlias = Callable[[Collection[bytes]], Collection[bytes]]
"""Selects some of the partitions, which are rows with arity."""


def names_partitions(predicate: Predicate, schema: TableSchema) -> bool:
    """Whether a condition uses only partition keys, so that it holds for all rows of a partition or for none."""
    keys = {field.id for field in schema.partition_fields}
    return {column.field_id for column in columns_of(predicate)} <= keys


def partitions_where(predicate: Predicate, schema: TableSchema) -> PartitionChoice:
    """A function that selects the partitions (rows with arity) for which a condition is true."""
    fields = schema.partition_fields

    def choose(partitions: Collection[bytes]) -> Collection[bytes]:
        known = list(partitions)
        if isinstance(predicate, Constant):
            return known if predicate.value else []
        columns = decode_rows([field.type for field in fields], known)
        wanted = [schema.arrow_schema.field(field.name) for field in fields]
        batch = pa.RecordBatch.from_arrays(columns, schema=pa.schema(wanted))
        mask = row_mask(predicate, batch)
        return [partition for partition, is_chosen in zip(known, mask.to_pylist(), strict=True) if is_chosen]

    return choose


def whole_partitions(where: Condition, schema: TableSchema) -> PartitionChoice:
    """A function that selects the partitions for which a condition on partition keys is true.

    Raises:
        UnsupportedError: The condition has other columns.
    """
    predicate = parse(where, schema.arrow_schema)
    if not names_partitions(predicate, schema):
        raise UnsupportedError("only whole partitions are rewritten: the condition must be on partition keys")
    return partitions_where(predicate, schema)
