"""Variants: values of any shape in two byte strings, whole or shredded into typed columns.

Bytes in, Python values, JSON or Arrow columns out, and back. A column of variants is a struct of `value` and
`metadata` with a mark (`VARIANT`), as Spark has it.

Spec: Parquet spec, VariantEncoding.md, VariantShredding.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from skerry.variant.values import VARIANT, Primitive, Typed, is_variant

if TYPE_CHECKING:
    from skerry.variant.columns import check as check
    from skerry.variant.conversion import as_json as as_json
    from skerry.variant.conversion import as_values as as_values
    from skerry.variant.conversion import from_json as from_json
    from skerry.variant.conversion import from_values as from_values
    from skerry.variant.decoding import decode_variant as decode_variant
    from skerry.variant.encoding import encode_variant as encode_variant
    from skerry.variant.getting import variant_get as variant_get
    from skerry.variant.json_text import parse_json as parse_json
    from skerry.variant.json_text import to_json as to_json

_WHERE: Final = {
    "as_json": "conversion",
    "as_values": "conversion",
    "check": "columns",
    "decode_variant": "decoding",
    "encode_variant": "encoding",
    "from_json": "conversion",
    "from_values": "conversion",
    "parse_json": "json_text",
    "to_json": "json_text",
    "variant_get": "getting",
}

__all__ = [
    "VARIANT",
    "Primitive",
    "Typed",
    "as_json",
    "as_values",
    "check",
    "decode_variant",
    "encode_variant",
    "from_json",
    "from_values",
    "is_variant",
    "parse_json",
    "to_json",
    "variant_get",
]


def __getattr__(name: str) -> Any:
    """What reads and writes values; every schema is asked for variants, and few tables have one."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
