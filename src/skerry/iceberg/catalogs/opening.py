"""Opening a catalog: its properties select who keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from skerry.errors import SkerryError
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.storage import redact

if TYPE_CHECKING:
    from skerry.encryption import KeyManagement
    from skerry.iceberg.encryption.table_keys import KeyRing

__all__ = ["key_ring_of", "open_catalog"]

_OWN_DIALECTS: Final = ("sqlite", "postgresql")
_KERBEROS: Final = "hive.kerberos-authentication"
_KEY_MANAGEMENT: Final = "encryption.key-management"  # what reads it loads only when it is needed


def open_catalog(name: str, properties: Mapping[str, Any]) -> IcebergCatalog:
    """Open a catalog.

    Args:
        name: Its name.
        properties: PyIceberg's properties: `type` (`sql`, `rest`, `glue`, …) or a `uri` that shows it, or
            `py-catalog-impl`.

    Raises:
        CatalogLockedError: Another process has locked its database.
        SkerryError: It cannot be opened.
    """
    uri = str(properties.get("uri", ""))
    kind = str(properties.get("type") or _kind_of(uri)).lower()
    if "py-catalog-impl" not in properties and _is_own(kind, uri, properties):
        try:
            return _own(kind)(name, properties)
        except SkerryError as error:
            error.message = f"cannot open catalog {name!r}: {error.message}"
            error.location = error.location or redact(uri)
            raise
    from skerry.iceberg.catalogs.pyiceberg_catalogs import PyIcebergCatalog

    return PyIcebergCatalog(name, properties)


def key_ring_of(given: KeyManagement | str | None, properties: Mapping[str, Any]) -> KeyRing | None:
    """What decrypts the keys of a catalog's encrypted tables; None if neither argument nor property says who does.

    Raises:
        SchemaError: There is no such key management.
        SkerryError: It cannot be opened.
    """
    if given is None and _KEY_MANAGEMENT not in properties:
        return None
    from skerry.encryption import find_key_management
    from skerry.iceberg.encryption.table_keys import KeyRing

    found = find_key_management(given, properties)
    return None if found is None else KeyRing(found)


def _is_own(kind: str, uri: str, properties: Mapping[str, Any]) -> bool:
    """Whether a catalog is opened without PyIceberg, which alone speaks SASL with Hive, for Kerberos."""
    if kind == "hive":
        return str(properties.get(_KERBEROS, "false")).strip().lower() != "true"
    return kind == "rest" or (kind == "sql" and _dialect(uri) in _OWN_DIALECTS)


def _own(kind: str) -> type[IcebergCatalog]:
    """The class of a catalog; each is loaded only when it is asked for."""
    if kind == "rest":
        from skerry.iceberg.catalogs.rest import RestCatalog

        return RestCatalog
    if kind == "hive":
        from skerry.iceberg.catalogs.hive import HiveCatalog

        return HiveCatalog
    from skerry.iceberg.catalogs.sql import SqlCatalog

    return SqlCatalog


def _kind_of(uri: str) -> str:
    if uri.startswith("http"):
        return "rest"
    if uri.startswith("thrift"):
        return "hive"
    return "sql" if _dialect(uri) in _OWN_DIALECTS else ""


def _dialect(uri: str) -> str:
    return uri.partition("://")[0].partition("+")[0].lower()
