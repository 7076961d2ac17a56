"""Values inside of variants as a file stores them: shredded ones are taken from their columns.

Spec: Parquet spec, VariantShredding.md, Objects.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError
from skerry.variant.assembling import assemble, check_bytes, encode_leaf
from skerry.variant.columns import Flags, Spans, flags_of
from skerry.variant.getting import variant_get
from skerry.variant.paths import Path, normalized_path
from skerry.variant.primitives import read_words, to_array

__all__ = ["stored_get"]

_RULE: Final = "Parquet spec, VariantShredding.md"


def stored_get(array: pa.StructArray, path: Path, type_: pa.DataType) -> pa.Array:
    """The values at a path, as `variant_get` finds them in the assembled column.

    Args:
        array: A column of a Parquet file: structs of `metadata` and `value`, `typed_value` or both.
        path: The path.
        type_: The type wanted, any but that of variants.

    Returns:
        An array of that type.

    Raises:
        FormatError: The bytes break a rule of the format.
        SchemaError: The structs have other fields.
        UnsupportedError: A type is not one of those that the format shreds.
    """
    within, group, depth = flags_of(array), array, 0
    for step in path:
        typed = _child(group, "typed_value")
        field = None if typed is None or not pa.types.is_struct(typed.type) else _child(typed, step)
        if typed is None or field is None or not pa.types.is_struct(field.type):
            break
        within = within & flags_of(typed) & flags_of(field)
        group, depth = field, depth + 1
    typed = _child(group, "typed_value")
    if depth == len(path) and typed is not None and not pa.types.is_nested(typed.type):
        return _leaf(_child(group, "value"), typed, within, type_)
    members = {name: found for name in ("value", "typed_value") if (found := _child(group, name)) is not None}
    if (metadata := _child(array, "metadata")) is not None:
        members["metadata"] = metadata
    whole = pa.StructArray.from_arrays(list(members.values()), names=list(members), mask=pa.array(~within))
    return variant_get(assemble(whole), normalized_path(path[depth:]), type_)


def _child(array: pa.StructArray, name: str | int) -> pa.Array | None:
    index = array.type.get_field_index(name) if isinstance(name, str) else -1
    return None if index < 0 else array.field(index)


def _leaf(value: pa.Array | None, typed: pa.Array, within: Flags, type_: pa.DataType) -> pa.Array:
    """Values of a pair of columns, of which the second is primitive."""
    check_bytes("value", value)
    is_typed = flags_of(typed) & within
    rest = None if value is None else Spans.of(value).only(within)
    if rest is not None and (rest.present & is_typed).any():
        raise FormatError("a variant has a value and a typed_value that is no object", rule=_RULE)
    if pa.types.is_signed_integer(typed.type) and pa.types.is_signed_integer(type_):
        typed = typed.cast(type_) if typed.type.bit_width < type_.bit_width else typed
    if typed.type == type_ and not isinstance(typed, pa.ExtensionArray):
        found = typed if within.all() else pc.if_else(pa.array(within), typed, None)
    else:
        found = to_array(read_words(encode_leaf(typed).only(is_typed)), type_)
    if rest is None or not rest.present.any():
        return found
    others = to_array(read_words(rest), type_)
    if isinstance(found, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(type_, pc.coalesce(found.storage, others.storage))
    return pc.coalesce(found, others)
