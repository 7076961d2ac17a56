"""`connect`: from what a user types to a catalog.

A folder is a warehouse with its own SQLite catalog; a bare name that PyIceberg's configuration knows is that catalog; a
URI's scheme selects the kind of catalog.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skerry.arguments import check_text, checked_path
from skerry.catalog.catalog import Catalog
from skerry.catalog.iceberg_tables import IcebergTables
from skerry.catalog.paimon_tables import PaimonTables
from skerry.catalog.warehouse_origin import CATALOG_FILE, moved_from
from skerry.databases.sql_dialects import SQLITE_TIMEOUT_S
from skerry.databases.sql_url import SqlUrl
from skerry.errors import NotFoundError, SchemaError, SkerryError, UnsupportedError
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.configuration import configured, configured_names
from skerry.iceberg.catalogs.opening import key_ring_of, open_catalog
from skerry.iceberg.catalogs.sql import SqlCatalog
from skerry.storage import MOVED_FROM, MOVED_TO, absolute, allow_locations, check_options, file_key, redact
from skerry.table.rows.schema import nearest

if TYPE_CHECKING:
    from skerry.catalog.pickling import Opening
    from skerry.encryption import KeyManagement

__all__ = ["connect"]

EMBEDDED_NAME = "skerry"
PAIMON_WAREHOUSE = "paimon.warehouse"

_KEY_MANAGEMENT = "encryption.key-management"
_PAIMON = "paimon+"
_SQL_SCHEMES = ("sqlite", "postgresql", "mysql")
_OBJECT_STORES = ("memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az")


def connect(
    target: str | os.PathLike[str],
    *,
    create: bool = True,
    allowed_locations: Sequence[str] = (),
    key_management: KeyManagement | str | None = None,
    **properties: str,
) -> Catalog:
    """Open a catalog.

    Args:
        target: One of

            - a folder: the warehouse; its catalog is the SQLite file `catalog.db` in it, which Spark's Iceberg
              connector can open as a JDBC catalog named `skerry`;
            - the name of a catalog in PyIceberg's configuration (`.pyiceberg.yaml`, `PYICEBERG_CATALOG__…`);
            - `rest+https://host/path` or `rest+http://…`: an Iceberg REST catalog;
            - `thrift://host:9083`: a Hive metastore; give `warehouse=` for namespaces that it creates;
            - `sqlite:///file`, `postgresql://…`: a SQL catalog; give `warehouse=` too;
            - `paimon+https://host/path` or `paimon+http://…`: Paimon's REST catalog; give `warehouse=` too;
            - `paimon+sqlite:///file`, `paimon+postgresql://…`: Paimon's JDBC catalog; give `warehouse=` too;
            - `s3://…`, `gs://…`, `abfs://…`: a folder of Paimon tables; Iceberg tables need one of the catalogs above.
        create: Whether to create a warehouse folder that does not exist; never for a name that resembles a configured
            one, unless it is written as a path (`./prod`).
        allowed_locations: Folders outside of tables' own locations from which their files may be read:
            `["s3://lake/raw"]`. Nothing is ever written or deleted there.
        key_management: Who decrypts the keys of encrypted Iceberg tables: an instance of a subclass of
            `skerry.encryption.KeyManagement`, or such a class as `"module:Class"`; the property
            `encryption.key-management` if None. Encrypted tables are read everywhere, and written in a Hive metastore.
        properties: Further catalog properties under PyIceberg's names, such as `**{"s3.endpoint": …}`. They override
            the configuration. `paimon.warehouse` is the folder of Paimon tables; by default the warehouse of a folder
            or a SQL catalog.

    Returns:
        The catalog.

    Raises:
        NotFoundError: The folder does not exist and `create` is false, or the name is nearly that of a configured
            catalog.
        SchemaError: An argument is of another type.
        SkerryError: The catalog cannot be reached.
        UnsupportedError: The target's scheme is none of the above.
    """
    text = _text("target", target)
    options: dict[str, Any] = {**allow_locations(allowed_locations), **properties}
    for name in ("warehouse", PAIMON_WAREHOUSE):
        if options.get(name) is not None:
            options[name] = _text(name, options[name])
    given = {**options, "create": False, **({} if key_management is None else {"key_management": key_management})}
    if key_management is not None:
        options[_KEY_MANAGEMENT] = key_management
    found = _connect(text, options, create=create)
    found._opening = partial(_reopening, found, text, given)  # noqa: SLF001  of a class of this package
    return found


def _connect(text: str, options: dict[str, Any], *, create: bool) -> Catalog:
    check_options(options)
    scheme, separator, _ = text.partition("://")
    scheme = scheme.lower()
    if separator and scheme != "file":
        return _connect_uri(text, scheme, options)
    if not separator and _is_bare_name(text):
        known = configured_names()
        if text.lower() in known:
            return _open(text, {**configured(text), **options})
        near = nearest(text, known)
        if not Path(text).is_dir() and ("did you mean" in near or not create):
            instead = f"; connect({f'./{text}'!r}) makes a folder" if create else ""
            raise NotFoundError(
                f"{text!r} is neither a folder nor a catalog in PyIceberg's configuration{near}{instead}"
            )
    return _connect_folder(text.removeprefix("file://") if separator else text, options, create=create)


def _reopening(catalog: Catalog, target: str, options: Mapping[str, Any]) -> Opening:
    """What opens a catalog again in another process, whose working folder may be another."""
    from skerry.catalog.pickling import Opening  # only loaded when it is used

    store = catalog._iceberg  # noqa: SLF001  of a class of this package
    if target.startswith("memory:") or (store is not None and store.catalog.is_private):
        raise UnsupportedError("the catalog is in the memory of this process, and is not pickled")
    if "://" not in target and not (_is_bare_name(target) and target.lower() in configured_names()):
        target = absolute(Path(target).expanduser().absolute())
    places = {name: absolute(options[name]) for name in ("warehouse", PAIMON_WAREHOUSE) if options.get(name)}
    return Opening(connect, target, {**options, **places})


def _text(option: str, value: str | os.PathLike[str]) -> str:
    """A folder, name or address that was given as text or path."""
    found = checked_path(option, value)
    check_text(option, found)
    return found


def _is_bare_name(text: str) -> bool:
    return os.sep not in text and "/" not in text and not text.startswith(".")


def _connect_uri(text: str, scheme: str, options: dict[str, Any]) -> Catalog:
    if scheme in ("rest+https", "rest+http"):
        return _open("rest", {"type": "rest", "uri": text.removeprefix("rest+"), **options})
    if scheme == "thrift":
        return _open(options.pop("name", "hive"), {"type": "hive", "uri": text, **options})
    if scheme.split("+", maxsplit=1)[0] in _SQL_SCHEMES:
        if "warehouse" not in options:
            raise SkerryError(f"a SQL catalog needs a warehouse folder: connect({redact(text)!r}, warehouse='…')")
        return _open(options.pop("name", EMBEDDED_NAME), {"type": "sql", "uri": text, **options})
    if scheme.startswith(_PAIMON):
        return _connect_paimon(text.removeprefix(_PAIMON), options)
    if scheme in _OBJECT_STORES:
        warehouse = {**options, "warehouse": text}
        return Catalog(EMBEDDED_NAME, warehouse, None, PaimonTables(text, options))
    raise UnsupportedError(
        f"cannot connect to {redact(text)}: expected a folder, a configured name, or a URI that begins with "
        "rest+https://, rest+http://, thrift://, sqlite:// or postgresql://"
    )


def _connect_paimon(uri: str, options: dict[str, Any]) -> Catalog:
    """A catalog that keeps Paimon tables only, and that Paimon's other engines share."""
    name = options.pop("name", EMBEDDED_NAME)
    scheme = uri.partition("://")[0].partition("+")[0].lower()
    if scheme in ("http", "https"):
        from skerry.catalog.paimon_rest import RestPaimonTables

        properties = {"uri": uri, **options}
        return Catalog(name, properties, None, RestPaimonTables(properties))
    if scheme not in _SQL_SCHEMES:
        raise UnsupportedError(
            f"cannot connect to {redact(_PAIMON + uri)}: expected paimon+https://, paimon+http://, paimon+sqlite:// or "
            "paimon+postgresql://"
        )
    if "warehouse" not in options:
        raise SkerryError(f"a JDBC catalog needs a warehouse folder: connect({redact(_PAIMON + uri)!r}, warehouse='…')")
    from skerry.catalog.paimon_jdbc import JdbcPaimonTables

    options["warehouse"] = absolute(options["warehouse"])
    return Catalog(name, {"uri": uri, **options}, None, JdbcPaimonTables(uri, options))


def _connect_folder(text: str, options: dict[str, Any], *, create: bool) -> Catalog:
    try:
        folder = absolute(Path(text).expanduser().absolute())
    except RuntimeError as error:  # of ~somebody
        raise NotFoundError(f"no folder {text!r}: {error}") from None
    database = os.path.join(folder, CATALOG_FILE)  # noqa: PTH118
    if not os.path.isfile(database):
        _prepare_folder(Path(folder), text, create=create)
    uri = str(SqlUrl("sqlite", database, options=(("timeout", f"{SQLITE_TIMEOUT_S:g}"),)))
    return _open(EMBEDDED_NAME, {"type": "sql", "uri": uri, "warehouse": f"file://{folder}", **options})


def _prepare_folder(folder: Path, text: str, *, create: bool) -> None:
    """Create the folder of a new warehouse.

    Args:
        folder: The folder.
        text: The same as it was given.
        create: Whether it may be created.
    """
    if not create:
        raise NotFoundError(f"no warehouse at {folder}: it has no {CATALOG_FILE}")
    if _is_table(folder):
        raise SchemaError(
            f"{folder} is the folder of a table, not of a warehouse: skerry.open_table({text!r}) reads it; connect to "
            "the warehouse that it is in to change it"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SkerryError(f"cannot create the warehouse folder: {error}", location=str(folder)) from None


def _is_table(folder: Path) -> bool:
    """Whether a folder has the metadata of an Iceberg or a Paimon table."""
    paimon = (folder / "schema" / "schema-0").is_file()
    return paimon or any((folder / "metadata").glob("*.metadata.json"))


def _open(name: str, options: dict[str, Any]) -> Catalog:
    keys = options.pop(_KEY_MANAGEMENT, None)
    catalog = open_catalog(name, options)
    catalog.key_ring = key_ring_of(keys, options)
    if isinstance(catalog, SqlCatalog):
        _notice_move(catalog)
    return Catalog(catalog.name, catalog.properties, IcebergTables(catalog), _paimon_tables(catalog))


def _notice_move(catalog: SqlCatalog) -> None:
    """Forbid writes outside of a warehouse folder that was copied or moved.

    Raises:
        CatalogLockedError: Another process has locked the catalog's database.
    """
    path = catalog.database.path
    if path is None:
        return
    folder, name = os.path.split(path)
    warehouse = str(catalog.properties.get("warehouse", ""))
    is_warehouse = name == CATALOG_FILE and file_key(warehouse) == file_key(folder)
    move = moved_from(catalog.database, folder, is_warehouse=is_warehouse)
    if move is not None:
        catalog.properties |= {MOVED_FROM: "\n".join(move.sources), MOVED_TO: move.target}


def _paimon_tables(catalog: IcebergCatalog) -> PaimonTables | None:
    """Paimon tables in the warehouse folder of a SQL catalog, or in the folder that is named for them.

    Other catalogs hand out credentials by table and name warehouses as they like: there the folder must be named.
    """
    warehouse = catalog.properties.get(PAIMON_WAREHOUSE)
    if warehouse is None and catalog.keeps_warehouse:
        warehouse = catalog.properties.get("warehouse")
    if warehouse is None:
        return None
    options = dict(catalog.properties)
    if MOVED_TO in options:
        moved_to = file_key(str(options[MOVED_TO]))
        if file_key(warehouse)[: len(moved_to)] != moved_to:  # the caller named another folder
            del options[MOVED_FROM], options[MOVED_TO]
    return PaimonTables(warehouse, options)
