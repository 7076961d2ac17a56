"""Marks of Arrow fields as columns of shapes, as GeoArrow defines them.

The mark is in the metadata of a field, whose type stays `binary`: that is what PyArrow makes of an extension type that
is not registered, and what DuckDB and GeoPandas read through the C interface. Data of others may also have a registered
extension type (that of geoarrow-pyarrow, for example).

Spec: GeoArrow, `geoarrow.wkb`, `Extension metadata`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from skerry.errors import SchemaError

__all__ = ["PLANAR", "Shapes", "WkbType", "marked", "shapes_of", "shapes_type"]

PLANAR: Final = "planar"
_NAME: Final = "geoarrow.wkb"
_NAMES: Final = (_NAME, "ogc.wkb")
_NAME_KEY: Final = b"ARROW:extension:name"
_METADATA_KEY: Final = b"ARROW:extension:metadata"
_EDGES: Final = frozenset({PLANAR, "spherical", "vincenty", "thomas", "andoyer", "karney"})
_AUTHORITY_CODE: Final = re.compile(r"[A-Za-z0-9_]+:[A-Za-z0-9_.]+")
_SRID: Final = "srid:"


@dataclass(frozen=True, slots=True)
class Shapes:
    """What the shapes of a column have in common.

    Args:
        crs: Their coordinate reference system: `authority:code`, `srid:number`, or another identifier; None if it is
            not known.
        edges: How edges run between two points: `planar`, or the algorithm of a globe.
    """

    crs: str | None = None
    edges: str = PLANAR


class WkbType(pa.ExtensionType):  # type: ignore[misc]
    """Marked binary values as one type. It is not registered, and so nothing that PyArrow reads has it.

    Args:
        shapes: What they have in common.
    """

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        super().__init__(pa.binary(), _NAME)

    def __str__(self) -> str:
        return "geometry" if self.shapes.edges == PLANAR else "geography"

    def __hash__(self) -> int:
        return hash(self.shapes)

    def __arrow_ext_serialize__(self) -> bytes:
        return _encode(self.shapes)

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> WkbType:
        return cls(_decode(serialized, ""))


def marked(field: pa.Field, shapes: Shapes) -> pa.Field:
    """A field of binary values with the mark."""
    return field.with_metadata({**(field.metadata or {}), _NAME_KEY: _NAME.encode(), _METADATA_KEY: _encode(shapes)})


def shapes_of(field: pa.Field) -> Shapes | None:
    """What a marked field or one of the extension type says about its shapes; None for a field of something else.

    Raises:
        SchemaError: The mark is invalid, or the reference system has no identifier; the field is named.
    """
    metadata = field.metadata or {}
    if _NAME_KEY in metadata:
        if metadata[_NAME_KEY].decode(errors="replace") not in _NAMES or isinstance(field.type, pa.BaseExtensionType):
            return None
        return _decode(metadata.get(_METADATA_KEY, b""), field.name)
    return _shapes_of_type(field.type, field.name)


def shapes_type(field: pa.Field) -> pa.DataType:
    """The type of a field, `WkbType` if it is marked.

    Raises:
        SchemaError: As `shapes_of`.
    """
    shapes = shapes_of(field)
    return field.type if shapes is None else WkbType(shapes)


def _shapes_of_type(type_: pa.DataType, name: str) -> Shapes | None:
    if isinstance(type_, WkbType):
        return type_.shapes
    if not isinstance(type_, pa.ExtensionType) or type_.extension_name not in _NAMES:
        return None
    return _decode(type_.__arrow_ext_serialize__(), name)


def _encode(shapes: Shapes) -> bytes:
    found: dict[str, str] = {}
    if shapes.crs is not None and shapes.crs.startswith(_SRID):
        found = {"crs": shapes.crs.removeprefix(_SRID), "crs_type": "srid"}
    elif shapes.crs is not None:
        found = {"crs": shapes.crs}
        if _AUTHORITY_CODE.fullmatch(shapes.crs):
            found["crs_type"] = "authority_code"
    if shapes.edges != PLANAR:
        found["edges"] = shapes.edges
    return json.dumps(found, separators=(",", ":")).encode()


def _decode(text: bytes, column: str) -> Shapes:
    try:
        found = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise SchemaError(f"column {column!r}: the metadata of its type geoarrow.wkb is no JSON object")
    edges = found.get("edges") or PLANAR
    if edges not in _EDGES:
        raise SchemaError(f"column {column!r}: {edges!r} is not a kind of edges of shapes")
    return Shapes(_crs(found.get("crs"), found.get("crs_type"), column), edges)


def _crs(crs: Any, kind: Any, column: str) -> str | None:
    if crs is None:
        return None
    if kind == "srid" and isinstance(crs, str):
        return _SRID + crs
    if isinstance(crs, str) and not crs.startswith("{"):
        if "(" not in crs and ")" not in crs and "," not in crs and "[" not in crs:
            return crs
        raise _no_identifier(column)
    try:
        described = json.loads(crs) if isinstance(crs, str) else crs
        authority, code = described["id"]["authority"], described["id"]["code"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _no_identifier(column) from None
    return f"{authority}:{code}"


def _no_identifier(column: str) -> SchemaError:
    return SchemaError(
        f"column {column!r}: its coordinate reference system is described, but not identified; give it as authority "
        "and code, such as EPSG:4326"
    )
