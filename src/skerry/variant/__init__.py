"""Variants: values of any shape in two byte strings, whole or shredded into typed columns.

Bytes in, Python values, JSON or Arrow columns out, and back. A column of variants is a struct of `value` and
`metadata` with a mark (`VARIANT`), as Spark has it.

Spec: Parquet spec, VariantEncoding.md, VariantShredding.md.
"""

from __future__ import annotations

from skerry.variant.assembling import assemble
from skerry.variant.columns import check
from skerry.variant.decoding import decode_names, decode_variant
from skerry.variant.encoding import VariantEncoder, encode_variant
from skerry.variant.getting import parse_type, variant_get
from skerry.variant.json_text import parse_json, to_json
from skerry.variant.paths import Path, normalized_path, parse_path
from skerry.variant.shredding import shred, stored_type
from skerry.variant.shredding_choice import choose_shredding
from skerry.variant.values import VARIANT, Primitive, Typed, is_variant

__all__ = [
    "VARIANT",
    "Path",
    "Primitive",
    "Typed",
    "VariantEncoder",
    "assemble",
    "check",
    "choose_shredding",
    "decode_names",
    "decode_variant",
    "encode_variant",
    "is_variant",
    "normalized_path",
    "parse_json",
    "parse_path",
    "parse_type",
    "shred",
    "stored_type",
    "to_json",
    "variant_get",
]
