"""Metadata that is broken, hostile or gone: typed errors that name the file, before anything is registered or read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from skerry.errors import FormatError, NotFoundError, SkerryError, UnsupportedError

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", "c"]})


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    return skerry.connect(tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="module")
def table(catalog):
    table = catalog.create_table("d.good", ROWS.schema)
    table.append(ROWS)
    return table


def path_of(location):
    return Path(location.removeprefix("file://"))


def without(*keys):
    return lambda document: {key: value for key, value in document.items() if key not in keys}


BROKEN = {
    "version 4": (lambda document: {**document, "format-version": 4}, UnsupportedError, "format version 4 is not"),
    "version 0": (lambda document: {**document, "format-version": 0}, UnsupportedError, "format version 0 is not"),
    "no version": (without("format-version"), FormatError, "not table metadata"),
    "no schemas": (without("schemas"), FormatError, "not table metadata"),
    "no location": (without("location"), FormatError, "location"),
    "no specs": (without("partition-specs"), FormatError, "not table metadata"),
    "no schema of that id": (
        lambda document: {**document, "current-schema-id": 7},
        FormatError,
        "there is no schema 7",
    ),
    "a list": (lambda document: [document], FormatError, "not table metadata"),
    "snapshots of another shape": (lambda document: {**document, "snapshots": {"a": 1}}, FormatError, "snapshots"),
    "a snapshot without manifests": (
        lambda document: {**document, "snapshots": [without("manifest-list")(document["snapshots"][0])]},
        FormatError,
        "manifest",
    ),
}


def with_column(type_):
    field = {"id": 9, "name": "v", "type": type_, "required": False}
    return lambda document: {
        **document,
        "schemas": [{**schema, "fields": [*schema["fields"], field]} for schema in document["schemas"]],
    }


BROKEN |= {
    f"a column of type {type_}": (with_column(type_), UnsupportedError, f"type {type_.partition('(')[0]}")
    for type_ in ("blob",)
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_metadata_is_named_and_not_registered(catalog, table, name):
    change, error, message = BROKEN[name]
    document = json.loads(path_of(table.metadata_location).read_text())
    bad = path_of(table.metadata_location).with_name(f"{name}.metadata.json".replace(" ", "-"))
    bad.write_text(json.dumps(change(document)))
    with pytest.raises(error, match=message) as caught:
        catalog.register_table("d.bad", f"file://{bad}").scan().to_arrow()
    if catalog.table_exists("d.bad"):  # the metadata itself may be as it should, and a snapshot not
        catalog.drop_table("d.bad")
    else:
        assert bad.name in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"null", b"Obj\x01"])
def test_what_is_no_json_is_named(catalog, table, data):
    bad = path_of(table.metadata_location).with_name("bytes.metadata.json")
    bad.write_bytes(data)
    with pytest.raises(FormatError, match="not table metadata") as caught:
        catalog.register_table("d.bad", f"file://{bad}")
    assert caught.value.location == f"file://{bad}"
    assert not catalog.table_exists("d.bad")


def test_compressed_metadata_is_read_and_its_damage_named(catalog, table):
    whole = gzip.compress(path_of(table.metadata_location).read_bytes())
    for number, data in enumerate([whole, whole[:-20], b"\x1f\x8b" + whole[:40], whole[:30] + b"\0" * 9 + whole[39:]]):
        path = path_of(table.metadata_location).with_name(f"{number}.gz.metadata.json")
        path.write_bytes(data)
        if number == 0:
            copy = catalog.register_table("d.copy", f"file://{path}")
            assert copy.scan().to_arrow() == table.scan().to_arrow()
            continue
        with pytest.raises(FormatError) as caught:
            catalog.register_table("d.bad", f"file://{path}")
        assert caught.value.location == f"file://{path}"


def test_missing_metadata_is_named(catalog, table):
    with pytest.raises(NotFoundError) as caught:
        catalog.register_table("d.bad", f"{table.location}/metadata/gone.metadata.json")
    assert "gone.metadata.json" in str(caught.value)
    assert not catalog.table_exists("d.bad")


def after_another_append(catalog, name):
    """The metadata file after an append by another handle: a handle does not read what it has read or written."""
    other = catalog.load_table(name)
    other.append(ROWS)
    return other.metadata_location


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_metadata_that_breaks_later_is_named_when_it_is_loaded(catalog, damage):
    table = catalog.create_table(f"d.{damage}", ROWS.schema)
    path = path_of(after_another_append(catalog, f"d.{damage}"))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    else:
        path.unlink()
    for load in (table.refresh, lambda: catalog.load_table(f"d.{damage}")):
        with pytest.raises(FormatError if damage == "cut" else NotFoundError) as caught:
            load()
        assert path.name in str(caught.value)


def test_another_uuid_is_another_table(tmp_path):
    catalog = skerry.connect(tmp_path)
    table = catalog.create_table("d.t", ROWS.schema)
    path = path_of(after_another_append(catalog, "d.t"))
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "table-uuid": "11111111-2222-3333-4444-555555555555"}))
    for act in (table.refresh, lambda: table.append(ROWS)):
        with pytest.raises(SkerryError, match="another"):
            act()
    assert catalog.load_table("d.t").scan().count() == 3
