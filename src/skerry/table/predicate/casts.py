"""Casts between types of values in conditions, with the roundings of DuckDB."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.table.predicate.literals import Family, family_of

__all__ = ["can_cast", "cast", "parse_sql_type", "sql_type"]

_NUMBERS: Final = frozenset({Family.INTEGER, Family.FLOAT, Family.DECIMAL})
_MOMENTS: Final = frozenset({Family.DATE, Family.TIMESTAMP, Family.INSTANT})
_TO_TEXT: Final = frozenset({Family.INTEGER, Family.DECIMAL, Family.BOOLEAN, *_MOMENTS})
_FROM_TEXT: Final = frozenset(
    {Family.INTEGER, Family.FLOAT, Family.DECIMAL, Family.BOOLEAN, Family.DATE, Family.TIMESTAMP}
)
_SPACES: Final = " \t\n\v\f\r"

_NAMES: Final[dict[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "UUID": pa.uuid(),
    "DATE": pa.date32(),
    "TIME": pa.time64("us"),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPTZ_NS": pa.timestamp("ns", "UTC"),
}
_ALIASES: Final = {
    "BOOL": "BOOLEAN",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "LONG": "BIGINT",
    "INT8": "BIGINT",
    "REAL": "FLOAT",
    "FLOAT4": "FLOAT",
    "FLOAT8": "DOUBLE",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "BINARY": "BLOB",
    "BYTEA": "BLOB",
}


def parse_sql_type(name: str, sizes: tuple[int, ...] = ()) -> pa.DataType | None:
    """The Arrow type that a name in SQL means, None if it is not known.

    Args:
        name: In upper case, such as `BIGINT`.
        sizes: The numbers after it, for `DECIMAL(10, 2)`.
    """
    if name in ("DECIMAL", "NUMERIC"):
        precision, scale = (*sizes, 0)[:2] if sizes else (18, 3)
        if len(sizes) > 2 or not 1 <= precision <= 76 or not 0 <= scale <= precision:
            return None
        return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)
    return None if sizes else _NAMES.get(_ALIASES.get(name, name))


def sql_type(type: pa.DataType) -> str:
    """The name of a type in SQL, which `parse_sql_type` knows."""
    if pa.types.is_decimal(type):
        return f"DECIMAL({type.precision}, {type.scale})"
    return next((name for name, known in _NAMES.items() if known == type), str(type))


def can_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of a type can be converted to another, although some of them may not fit it."""
    found, wanted = family_of(source), family_of(target)
    if found is wanted or {found, wanted} <= _NUMBERS or {found, wanted} <= _MOMENTS:
        return True
    if (found is Family.BOOLEAN and wanted in _NUMBERS) or (found, wanted) == (Family.INTEGER, Family.BOOLEAN):
        return True
    if wanted is Family.TIME:
        return found in (Family.TIMESTAMP, Family.INSTANT)
    return (found is Family.STRING and wanted in _FROM_TEXT) or (wanted is Family.STRING and found in _TO_TEXT)


def cast(values: Any, type: pa.DataType) -> Any:
    """Convert values.

    Args:
        values: An array or scalar.
        type: A type for which `can_cast` is true.

    Returns:
        An array or scalar of the type.

    Raises:
        pyarrow.ArrowException: A value does not fit the type.
    """
    source = values.type
    if source == type:
        return values
    found, wanted = family_of(source), family_of(type)
    if found is Family.BOOLEAN and wanted is not Family.STRING:
        values, found = pc.cast(values, pa.int64()), Family.INTEGER
    if wanted is Family.STRING:
        return _text(values, found)
    if found is Family.STRING:
        return pc.cast(pc.utf8_trim(values, _SPACES), type)
    if wanted is Family.INTEGER and found is Family.FLOAT:
        return pc.cast(pc.round(values, round_mode="half_to_even"), type)
    if wanted is Family.INTEGER and found is Family.DECIMAL:
        return pc.cast(_rounded(values, 0), type)
    if wanted is Family.FLOAT:
        return pc.cast(values, type, safe=False)  # the nearest value
    if wanted is Family.DECIMAL:
        return _decimal(values, found, type)
    if wanted is Family.DATE:
        return pc.cast(pc.floor_temporal(_in_utc(values), unit="day"), type)
    if wanted is Family.TIME:
        return pc.cast(_in_utc(values), type)
    if wanted in (Family.TIMESTAMP, Family.INSTANT):
        return _moment(values, found, type)
    return pc.cast(values, type)


def _decimal(values: Any, found: Family | None, type: pa.DataType) -> Any:
    if found is Family.INTEGER:
        values = pc.cast(pc.cast(values, pa.decimal128(20, 0)), pa.decimal256(76, type.scale))
    elif found is Family.DECIMAL:
        values = _rounded(values, type.scale)
    return pc.cast(values, type)


def _rounded(values: Any, scale: int) -> Any:
    if values.type.scale <= scale:
        return values
    # rounding up may take one more digit than the type has
    wide = values if pa.types.is_decimal256(values.type) else pc.cast(values, pa.decimal256(76, values.type.scale))
    return pc.round(wide, ndigits=scale, round_mode="half_towards_infinity")


def _in_utc(values: Any) -> Any:
    """Points in time as timestamps without zone, in UTC."""
    if values.type.tz is None:
        return values
    return pc.cast(pc.cast(values, pa.int64()), pa.timestamp(values.type.unit))


def _moment(values: Any, found: Family | None, type: pa.DataType) -> Any:
    if found is Family.DATE:
        values = pc.cast(values, pa.timestamp(type.unit))
    values = pc.cast(_in_utc(values), pa.timestamp(type.unit), safe=type.unit != "us")
    return values if type.tz is None else pc.cast(pc.cast(values, pa.int64()), type)


def _text(values: Any, found: Family | None) -> Any:
    if found not in (Family.TIMESTAMP, Family.INSTANT):
        return pc.cast(values, pa.string())
    text = pc.cast(_in_utc(values), pa.string())
    text = pc.replace_substring_regex(text, r"(\.\d*[1-9])0+$", r"\1")
    text = pc.replace_substring_regex(text, r"\.0+$", "")
    return text if found is Family.TIMESTAMP else pc.binary_join_element_wise(text, pa.scalar("+00"), "")
