"""Values inside of variants: `variant_get`, and the type names that it takes.

Spec: Parquet spec, VariantEncoding.md.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import SchemaError
from skerry.variant.columns import Dictionaries, Spans, raise_on, variants
from skerry.variant.layout import find_steps
from skerry.variant.paths import Path, parse_path
from skerry.variant.primitives import read_words, to_array
from skerry.variant.values import VARIANT, is_variant

__all__ = ["find_path", "name_of_type", "parse_type", "variant_get"]

_TYPES: Final = {
    "boolean": pa.bool_(),
    "bool": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "varchar": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.uuid(),
    "variant": VARIANT,
}
_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")


def parse_type(text: str) -> pa.DataType:
    """The Arrow type of an Iceberg or SQL name, such as `long`, `decimal(10, 2)`, `timestamptz`, `variant`.

    Raises:
        SchemaError: The name is unknown.
    """
    name = text.strip().lower()
    found = _DECIMAL.fullmatch(name)
    if found:
        precision, scale = int(found[1]), int(found[2] or 0)
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    if name not in _TYPES:
        raise SchemaError(f"{text!r:.80} is no type of a value in a variant, expected one of {', '.join(_TYPES)}")
    return _TYPES[name]


def name_of_type(type_: pa.DataType) -> str:
    """The name by which `parse_type` knows an Arrow type."""
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision}, {type_.scale})"
    return next(name for name, known in _TYPES.items() if known == type_)


def variant_get(
    column: pa.Array | pa.ChunkedArray, path: str, type: str | pa.DataType = "variant"
) -> pa.Array | pa.ChunkedArray:
    """The values at a path of every variant of a column.

    Args:
        column: Variants: structs of `value` and `metadata` with the mark of `VARIANT`.
        path: Such as `$.name`, `$['a name'].list[0]`, or `$` for the variant itself.
        type: The type wanted, by name or as an Arrow type. Numbers convert to other types of numbers where no digit is
            lost (floating-point types round), timestamps to other units likewise.

    Returns:
        An array of that type: null where the variant is null, the path leads to nothing or to a variant null, or the
        value is of another kind or does not fit. With `variant`, a variant null stays one.

    Raises:
        FormatError: A variant breaks a rule of the format.
        SchemaError: The column does not hold variants, or path or type are wrong.
    """
    wanted = parse_type(type) if isinstance(type, str) else type
    if not isinstance(wanted, pa.DataType):
        raise SchemaError(f"type must be the name of a type or an Arrow type, found {type!r:.80}")
    steps = parse_path(path)
    if isinstance(column, pa.ChunkedArray):
        return pa.chunked_array([_get(chunk, steps, wanted) for chunk in column.chunks], wanted)
    return _get(column, steps, wanted)


def _get(array: pa.StructArray, path: Path, type_: pa.DataType) -> pa.Array:
    spans, dictionaries = variants(array)
    spans = find_path(spans, dictionaries, path)
    if not is_variant(type_):
        return to_array(read_words(spans), type_)
    present = spans.present
    metadata = array.field(array.type.get_field_index("metadata"))
    value = spans.to_arrow()
    mask = None
    if not present.all():
        mask = pa.array(~present)
        value, metadata = value.fill_null(b""), pc.if_else(mask, b"", metadata)
    return pa.StructArray.from_arrays([value, metadata.cast(pa.binary())], fields=list(VARIANT), mask=mask)


def find_path(spans: Spans, dictionaries: Dictionaries, path: Path) -> Spans:
    """Where a path leads to in every value.

    Raises:
        FormatError: A variant breaks a rule of the format.
    """
    for step in path:
        found = np.empty_like(spans.at)
        name, index = (b"", step) if isinstance(step, int) else (step.encode(errors="surrogatepass"), -1)
        text = np.frombuffer(name, np.uint8)
        known = (dictionaries.data, dictionaries.at, dictionaries.codes)
        raise_on(find_steps(spans.data, spans.at, *known, text, index, found))
        spans = Spans(spans.data, found)
    return spans
