"""Schema drift: differences between a source's rows and the table, and the schema changes that resolve them.

Three differences count as drift, because a change of the table's schema resolves them: a field without a column in the
table, a column without a field in the rows, and values of a wider type. Any other value that does not fit a column is
an error of the record, which is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from skerry.catalog import Table
from skerry.errors import SchemaError
from skerry.jobs.record_texts import NewFields
from skerry.spark.change_records.batches import RecordBatch

__all__ = ["Drift", "DriftMode", "evolve", "find_drift"]

_MAX_VALUES = 10_000
_WIDEST = 38
_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


class DriftMode(Enum):
    """What happens if a source has changed."""

    REFUSE = "refuse"
    """The job ends with a description of the difference."""
    EVOLVE = "evolve"
    """The table's schema is changed accordingly."""

    @classmethod
    def parse(cls, text: str) -> DriftMode:
        """Parse a mode.

        Raises:
            SchemaError: The mode does not exist.
        """
        try:
            return cls(text.strip().lower())
        except ValueError:
            choices = " or ".join(mode.value for mode in cls)
            raise SchemaError(f"drift must be {choices}, found {text!r}") from None


@dataclass(frozen=True)
class Drift:
    """How rows differ from a table.

    Args:
        added: Fields without a column in the table, with their types; null where no row has a value.
        missing: Columns without a field in some rows.
        wider: Columns with values of a wider type, and that type.
    """

    added: Mapping[str, pa.DataType] = field(default_factory=dict)
    missing: Sequence[str] = ()
    wider: Mapping[str, pa.DataType] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.added or self.missing or self.wider)

    def describe(self, schema: pa.Schema) -> str:
        """The differences, one by one."""
        said = [f"the table has no column {name!r}, found {type_}" for name, type_ in self.added.items()]
        said += [f"column {name!r}: expected {schema.field(name).type}, found no field" for name in self.missing]
        for name, type_ in self.wider.items():
            said.append(f"column {name!r}: expected {schema.field(name).type}, found {type_}")
        return "; ".join(said)


def find_drift(schema: pa.Schema, batch: RecordBatch) -> Drift:
    """Find how a batch's rows differ from a table.

    Args:
        schema: The table's columns.
        batch: The parsed batch.

    Raises:
        SchemaError: A new field has values of incompatible types.
    """
    added: dict[str, pa.DataType] = {}
    missing: dict[str, None] = {}
    for found in batch.fields:
        known = dict.fromkeys(name for names in found.names for name in names)
        new = [name for name in known if name not in schema.names]
        if new:
            types = _types(new, found)
            added |= {name: type_ for name, type_ in types.items() if pa.types.is_null(added.get(name, pa.null()))}
        missing |= dict.fromkeys(name for names in found.names for name in schema.names if name not in names)
    if batch.columns is not None:
        added |= {field.name: field.type for field in batch.columns if field.name not in schema.names}
        missing |= dict.fromkeys(name for name in schema.names if name not in batch.columns.names)
    return Drift(added, tuple(missing), _wider(schema, batch.refused))


def _types(names: Sequence[str], fields: NewFields) -> dict[str, pa.DataType]:
    """The types of new fields, inferred from their values."""
    options = arrow_json.ParseOptions(newlines_in_values=True)
    end_of_line = pa.scalar("\n", pa.large_string())
    texts = fields.texts.cast(pa.large_string())
    lines = pc.binary_join_element_wise(texts, pa.scalar("", pa.large_string()), end_of_line)
    try:
        read = arrow_json.read_json(pa.BufferReader(lines.buffers()[2]), parse_options=options)
    except pa.ArrowInvalid as error:
        raise SchemaError(f"new fields {', '.join(names)} have values of incompatible types: {error}") from None
    row = pa.struct(list(read.schema))
    for part in fields.path:
        row = row.field(part).type
    return {name: _stored(row.field(name).type) for name in names}


def _stored(type_: pa.DataType) -> pa.DataType:
    """The type of a new column: JSON texts that look like times stay texts."""
    if pa.types.is_timestamp(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(child.name, _stored(child.type)) for child in type_])
    if pa.types.is_list(type_):
        return pa.list_(_stored(type_.value_type))
    return type_


def _wider(schema: pa.Schema, refused: pa.Table) -> dict[str, pa.DataType]:
    """Columns whose refused values all have a wider type, ignoring those of other kinds."""
    found = {}
    for name in pc.unique(refused.column("column")).drop_null().to_pylist():
        values = refused.column("value").filter(pc.equal(refused.column("column"), name))
        numbers = _numbers(pc.unique(values).drop_null().slice(0, _MAX_VALUES))
        wider = _wide_enough(schema.field(name).type, numbers)
        if wider is not None:
            found[name] = wider
    return found


def _numbers(values: pa.Array) -> list[Decimal]:
    found = []
    for text in values.to_pylist():
        try:
            number = Decimal(text)
        except InvalidOperation:
            continue
        if number.is_finite():
            found.append(number)
    return found


def _wide_enough(type_: pa.DataType, numbers: Sequence[Decimal]) -> pa.DataType | None:
    """The wider type that can represent numbers that a type cannot; None if there is none."""
    if type_ in _INTEGERS:
        wider = [wide for wide in _INTEGERS if wide.bit_width > type_.bit_width]
        fitting = [
            next((wide for wide in wider if -(2 ** (wide.bit_width - 1)) <= number < 2 ** (wide.bit_width - 1)), None)
            for number in numbers
            if number == number.to_integral_value()
        ]
        return max((wide for wide in fitting if wide is not None), key=lambda wide: wide.bit_width, default=None)
    if pa.types.is_decimal(type_):
        digits = [number.adjusted() + 1 for number in numbers if number == round(number, type_.scale) and number != 0]
        needed = max((count + type_.scale for count in digits if count + type_.scale <= _WIDEST), default=0)
        return pa.decimal128(needed, type_.scale) if needed > type_.precision else None
    return None


# Following the source ------------------------------------------------------------------------------------------------


def evolve(table: Table, drift: Drift, key: Sequence[str]) -> bool:
    """Change a table's schema so that rows fit; changes that it already has are skipped.

    Args:
        table: The table.
        drift: How the rows differ.
        key: Columns that must remain required.

    Returns:
        Whether the schema was changed.

    Raises:
        SchemaError: The table's format does not allow the change.
    """
    schema = table.refresh().schema
    update = table.update_schema()
    is_changed = False
    for name, type_ in drift.added.items():
        if name not in schema.names and not pa.types.is_null(type_):
            update.add_column([name], type_)
            is_changed = True
    for name, type_ in drift.wider.items():
        if schema.field(name).type != type_:
            update.update_column([name], type_)
            is_changed = True
    for name in drift.missing:
        if not schema.field(name).nullable and name not in key:
            update.make_column_optional([name])
            is_changed = True
    if is_changed:
        update.commit()
    return is_changed
