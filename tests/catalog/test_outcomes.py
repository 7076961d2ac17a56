"""What a catalog says of changes that happened although something failed: never that nothing has happened."""

from __future__ import annotations

import pyarrow as pa
import pytest

import skerry
from skerry.catalog.catalog import Catalog
from skerry.errors import AlreadyExistsError, CommitUnknownError, StorageError
from skerry.storage import Storage
from skerry.storage.local import LocalFiles

SCHEMA = pa.schema([("id", pa.int64())])


def failing(*_, **__):
    raise StorageError("the store failed")


@pytest.mark.parametrize("format", ["iceberg", "paimon"])
def test_a_table_that_was_made_and_cannot_be_loaded_is_no_plain_error(tmp_path, monkeypatch, format):
    catalog = skerry.connect(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "load_table", failing)
        with pytest.raises(CommitUnknownError, match="was created, but cannot be loaded: the store failed"):
            catalog.create_table("d.t", SCHEMA, format=format)
        with pytest.raises(CommitUnknownError, match="was renamed"):
            catalog.rename_table("d.t", "d.u")
    assert catalog.list_tables() == ["d.u"]


@pytest.mark.parametrize("takes_effect", [True, False])
def test_a_schema_whose_writing_fails_is_looked_for(tmp_path, monkeypatch, takes_effect):
    catalog = skerry.connect(tmp_path)
    write = LocalFiles.write

    def unsure(self, location, data, *, overwrite):
        if takes_effect:
            write(self, location, data, overwrite=overwrite)
        failing()

    monkeypatch.setattr(LocalFiles, "write", unsure)
    if takes_effect:
        assert catalog.create_table("d.t", SCHEMA, format="paimon").schema.names == ["id"]
    else:
        with pytest.raises(CommitUnknownError, match="schema 0 may or may not have been created: the store failed"):
            catalog.create_table("d.t", SCHEMA, format="paimon")


def test_a_drop_that_was_interrupted_can_be_ended(tmp_path, monkeypatch):
    catalog = skerry.connect(tmp_path)
    catalog.create_table("d.t", SCHEMA, format="paimon").append(pa.table({"id": [1]}))
    delete = Storage.delete

    def stop_after_the_schemas(self, locations):
        locations = list(locations)
        if any("/schema/" not in location for location in locations):
            failing()
        delete(self, locations)

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "delete", stop_after_the_schemas)
        catalog.drop_table("d.t", purge=True)  # the table is gone; the log says what is left
    assert not catalog.table_exists("d.t")
    with pytest.raises(AlreadyExistsError, match=r"drop_table\('d.t', purge=True\) deletes the remaining files"):
        catalog.create_table("d.t", SCHEMA, format="paimon")
    catalog.drop_table("d.t", purge=True)
    assert catalog.create_table("d.t", SCHEMA, format="paimon").scan().count() == 0
