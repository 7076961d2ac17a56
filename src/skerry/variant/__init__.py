"""Variants: values of any shape in two byte strings, whole or shredded into typed columns.

Bytes in, Python values, JSON or Arrow columns out, and back. A column of variants is a struct of `value` and
`metadata` with a mark (`VARIANT`), as Spark has it.

Spec: Parquet spec, VariantEncoding.md, VariantShredding.md.
"""

from __future__ import annotations

from skerry.variant.columns import check
from skerry.variant.conversion import as_json, as_values, from_json, from_values
from skerry.variant.decoding import decode_variant
from skerry.variant.encoding import encode_variant
from skerry.variant.getting import variant_get
from skerry.variant.json_text import parse_json, to_json
from skerry.variant.values import VARIANT, Primitive, Typed, is_variant

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
