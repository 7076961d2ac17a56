"""Views of a SQL catalog: rows of the type VIEW, which name metadata files.

Spec: Iceberg view spec.
"""

from __future__ import annotations

from skerry.errors import ConflictError, NotFoundError
from skerry.iceberg.catalogs.metadata_files import metadata_name
from skerry.iceberg.catalogs.records import CatalogView, Identifier, NewView
from skerry.iceberg.catalogs.sql_tables import NewLocation, SqlTables
from skerry.iceberg.metadata.view_metadata import ViewMetadata, decode_view, encode_view
from skerry.storage import Storage, join
from skerry.table.owned_files import owned_files
from skerry.table.sending import Sending

__all__ = ["create_view", "load_view", "replace_view"]


def load_view(views: SqlTables, storage: Storage, identifier: Identifier) -> CatalogView:
    """Load a view's newest state; see `IcebergCatalog.load_view`."""
    location = views.metadata_location(*_key(identifier))
    try:
        data = storage.read(location)
    except NotFoundError:
        raise NotFoundError("the view's metadata file is missing", location=location) from None
    return CatalogView(identifier, decode_view(data, location=location), location)


def create_view(views: SqlTables, storage: Storage, identifier: Identifier, folder: str, new: NewView) -> CatalogView:
    """Create a view in a namespace that exists; see `IcebergCatalog.create_view`.

    Args:
        views: The views of the catalog.
        storage: Access to metadata files.
        identifier: The view.
        folder: Its folder.
        new: Its definition.
    """
    metadata = ViewMetadata.of(folder.rstrip("/"), new.version, new.schema, new.properties)
    location = join(metadata.location, "metadata", metadata_name(None))
    with owned_files(storage) as files:
        files.add(location)
        storage.write(location, encode_view(metadata))
        with Sending(files) as sending:
            views.add_table(*_key(identifier), location, sending)
    return CatalogView(identifier, metadata, location)


def replace_view(views: SqlTables, storage: Storage, view: CatalogView, new: NewView) -> CatalogView:
    """Give a view another definition; see `IcebergCatalog.replace_view`."""
    metadata = view.metadata.replaced_by(new.version, new.schema, new.properties)
    if views.metadata_location(*_key(view.identifier)) != view.metadata_location:
        raise ConflictError(f"view {'.'.join(view.identifier)!r} was changed by another process")
    if metadata == view.metadata:
        return view
    location = join(metadata.location, "metadata", metadata_name(view.metadata_location))
    with owned_files(storage) as files:
        files.add(location)
        storage.write(location, encode_view(metadata))
        with Sending(files) as sending:
            views.replace_locations([NewLocation(*_key(view.identifier), view.metadata_location, location)], sending)
    return CatalogView(view.identifier, metadata, location)


def _key(identifier: Identifier) -> tuple[str, str]:
    """Namespace and name, as rows have them."""
    return ".".join(identifier[:-1]), identifier[-1]
