"""Encrypted tables that Spark wrote: every snapshot is read, nothing is written, and no key comes out."""

from __future__ import annotations

import base64
import dataclasses
import json
import logging
import pickle
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from foreign_samples import ENCRYPTED, Sample, plain_rows, unpack

import skerry
from skerry.encryption import KeyFile, KeyManagement, decode_key_metadata, decrypt, encrypt
from skerry.errors import FormatError, NotFoundError, SkerryError, StorageError, UnsupportedError
from skerry.iceberg.catalogs.pyiceberg_catalogs import PyIcebergCatalog
from skerry.iceberg.encryption.table_keys import KeyRing
from skerry.iceberg.handle import IcebergHandle
from skerry.iceberg.table import IcebergTable
from skerry.storage import Storage
from skerry.table.connector.stream_choice import StreamChoice

MASTER_KEY = b"0123456789012345"
NAMES = sorted(path.name.removesuffix(".tar.xz") for path in ENCRYPTED.glob("*.tar.xz"))


@pytest.fixture
def keys(tmp_path: Path) -> KeyFile:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keyA": base64.b64encode(MASTER_KEY).decode()}))
    path.chmod(0o600)
    return KeyFile(path)


class Vault(KeyManagement):
    """Keys as a service keeps them; counts how often it is asked."""

    def __init__(self, key: bytes = MASTER_KEY) -> None:
        self.key, self.asked = key, 0

    def wrap_key(self, key: bytes, key_id: str) -> bytes:
        return encrypt(self.key, key)

    def unwrap_key(self, wrapped: bytes, key_id: str) -> bytes:
        assert key_id == "keyA"
        self.asked += 1
        return decrypt(self.key, wrapped)


class Broken(Vault):
    """A service that fails, and says more than it should."""

    def unwrap_key(self, wrapped: bytes, key_id: str) -> bytes:
        raise ValueError(f"no {self.key!r}")


def sample(name: str) -> Sample:
    return unpack(f"encrypted/{name}")


@pytest.mark.parametrize("name", NAMES)
def test_every_snapshot_is_read(name, keys):
    found = sample(name)
    table = skerry.open_table(found.metadata, key_management=keys)
    assert plain_rows(table.scan().to_arrow()) == found.states["current"]
    snapshots = [state for state in found.states if state.isdigit()]
    assert len(snapshots) == 5
    for state in snapshots:
        assert plain_rows(table.scan(snapshot=int(state)).to_arrow()) == found.states[state]
    rows = [row for row in found.states["current"] if row["id"] > 10]
    assert plain_rows(table.scan(where="id > 10").to_arrow()) == rows
    assert table.scan(where="id > 10").count() == len(rows)
    assert table.scan(where="id = 1000").to_arrow().num_rows == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_file_is_encrypted_and_has_deletes(name, keys):
    found = sample(name)
    storage = Storage()
    kinds = {storage.read(location)[:4] for location in found.files if not location.endswith(".json")}
    assert kinds == ({b"AGS1", b"PARE"} if name == "people" else {b"AGS1"})
    tasks = skerry.open_table(found.metadata, key_management=keys).scan().plan()
    assert {delete.file_format for task in tasks for delete in task.deletes} == {"puffin"}
    assert {len(decode_key_metadata(task.data_file.key_metadata).key) for task in tasks} == {
        16 if name == "people" else 32
    }


@pytest.mark.parametrize("name", NAMES)
def test_changes_are_read(name, keys):
    found = sample(name)
    table = skerry.open_table(found.metadata, key_management=keys)
    first, *_, last = (int(state) for state in found.states if state.isdigit())
    changes = table.changes(first, last).to_arrow()
    before = {row["id"] for row in found.states[str(first)]}
    after = {row["id"] for row in found.states["current"]}
    kinds = changes.column("_change_type").to_pylist()
    ids = changes.column("id").to_pylist()
    assert {id_ for id_, kind in zip(ids, kinds, strict=True) if kind in ("DELETE", "UPDATE_BEFORE")} >= before - after
    assert {id_ for id_, kind in zip(ids, kinds, strict=True) if kind in ("INSERT", "UPDATE_AFTER")} >= after - before


def test_through_a_catalog_with_a_key_management_by_its_class(keys, tmp_path):
    found = sample("people")
    properties = {"encryption.key-management": "skerry.encryption:KeyFile", "encryption.key-file": str(keys.path)}
    catalog = skerry.connect(tmp_path / "w", **properties)
    table = catalog.register_table("s.people", found.metadata)
    assert plain_rows(table.scan().to_arrow()) == found.states["current"]
    result = catalog.sql("SELECT count(*) AS n FROM s.people")
    assert result.to_pylist() == [{"n": len(found.states["current"])}]
    assert "key" not in repr(catalog)


def test_a_key_is_unwrapped_once(tmp_path):
    vault = Vault()
    catalog = skerry.connect(tmp_path, key_management=vault)
    table = catalog.register_table("s.people", sample("people").metadata)
    for _ in range(3):
        table.refresh()
        assert table.scan().count() > 0
    assert vault.asked == 1


def test_without_keys_or_with_wrong_ones(keys, tmp_path):
    found = sample("people")
    table = skerry.open_table(found.metadata)
    assert table.schema.names == ["id", "name", "region"]
    with pytest.raises(UnsupportedError, match=r"encrypted with key 'keyA': reading it needs a key management"):
        table.scan().to_arrow()
    with pytest.raises(FormatError, match=r"key of a manifest list cannot be found: cannot be decrypted"):
        skerry.open_table(found.metadata, key_management=Vault(b"another key, 16!")).scan().to_arrow()
    keys.path.write_text("{}")
    with pytest.raises(NotFoundError, match="the key file has no key 'keyA'"):
        skerry.open_table(found.metadata, key_management=KeyFile(keys.path)).scan().to_arrow()
    with pytest.raises(StorageError, match="refuses or does not know key 'keyA': ValueError") as caught:
        skerry.open_table(found.metadata, key_management=Broken()).scan().to_arrow()
    assert MASTER_KEY.decode() not in str(caught.value)


# ---- writing ----

NOT_WRITTEN = "encrypted tables are only read"
ROWS = pa.table({"id": [1], "name": ["new"], "region": ["north"]})
WRITES = {
    "append": lambda table: table.append(ROWS),
    "overwrite": lambda table: table.overwrite(ROWS),
    "delete": lambda table: table.delete("id = 3"),
    "upsert": lambda table: table.upsert(ROWS, on=["id"]),
    "compact": lambda table: table.compact(),
    "analyze": lambda table: table.analyze(),
    "expire": lambda table: table.expire_snapshots(keep_last=1, older_than=datetime.now(UTC)),
    "properties": lambda table: table.set_properties({"a": "b"}),
    "tag": lambda table: table.create_tag("v1"),
    "orphans": lambda table: table.remove_orphans(),
}


@pytest.mark.parametrize("write", WRITES)
def test_nothing_is_written(write, keys, tmp_path):
    found = sample("people")
    catalog = skerry.connect(tmp_path, key_management=keys)
    table = catalog.register_table("s.people", found.metadata)
    before = {file.location: file.size_bytes for file in Storage().list("memory://samples/s/people")}
    with pytest.raises(UnsupportedError, match=NOT_WRITTEN):
        WRITES[write](table)
    assert {file.location: file.size_bytes for file in Storage().list("memory://samples/s/people")} == before
    assert catalog.load_table("s.people").scan().count() == len(found.states["current"])


def test_it_is_neither_purged_nor_migrated(keys, tmp_path):
    found = sample("people")
    catalog = skerry.connect(tmp_path, key_management=keys)
    catalog.register_table("s.people", found.metadata)
    with pytest.raises(UnsupportedError, match=NOT_WRITTEN):
        catalog.drop_table("s.people", purge=True)
    with pytest.raises(UnsupportedError, match=NOT_WRITTEN):
        catalog.migrate("s.people", format="paimon")
    assert catalog.load_table("s.people").scan().count() == len(found.states["current"])


def test_it_is_neither_copied_nor_moved_nor_changed_in_a_transaction(keys, tmp_path):
    found = sample("people")
    catalog = skerry.connect(tmp_path / "w", key_management=keys)
    table = catalog.register_table("s.people", found.metadata)
    with pytest.raises(UnsupportedError, match="encrypted tables cannot be copied"):
        table.copy_to(tmp_path / "copy")
    with pytest.raises(UnsupportedError, match="encrypted"):
        table.relocate(tmp_path / "new")
    with pytest.raises(UnsupportedError, match=NOT_WRITTEN), catalog.transaction() as tx:
        tx.load_table("s.people").set_properties({"a": "b"})
    assert not (tmp_path / "copy").exists()
    assert not (tmp_path / "new").exists()
    assert catalog.load_table("s.people").metadata_location == found.metadata


@pytest.mark.parametrize("change", ["no table key", "no keys"])
def test_what_is_left_of_an_encrypted_table_is_not_written_either(change, tmp_path):
    found = sample("people")
    storage = Storage()
    metadata = json.loads(storage.read(found.metadata))
    HOSTILE[change](metadata)
    location = found.metadata.replace(".metadata.json", "-y.metadata.json")
    storage.write(location, json.dumps(metadata).encode(), overwrite=True)
    table = skerry.connect(tmp_path).register_table("s.people", location)
    for write in ("append", "properties", "tag"):
        with pytest.raises(UnsupportedError, match=NOT_WRITTEN):
            WRITES[write](table)


def test_catalogs_of_pyiceberg_keep_the_keys(tmp_path):
    found = sample("people")
    options = {"py-catalog-impl": "pyiceberg.catalog.sql.SqlCatalog", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    catalog = PyIcebergCatalog("c", {**options, "warehouse": str(tmp_path)})
    catalog.key_ring = KeyRing(Vault())
    catalog.create_namespace(("s",))
    catalog.register_table(("s", "people"), found.metadata)
    table = IcebergTable(IcebergHandle(catalog, ("s", "people")))
    assert plain_rows(table.scan().to_arrow()) == found.states["current"]
    with pytest.raises(UnsupportedError, match=NOT_WRITTEN):
        table.append(ROWS)


def test_no_table_becomes_an_encrypted_one(tmp_path):
    catalog = skerry.connect(tmp_path)
    schema = pa.schema([("n", pa.int64())])
    with pytest.raises(UnsupportedError, match=r"encryption.key-id cannot be set"):
        catalog.create_table("d.t", schema, properties={"encryption.key-id": "k"})
    table = catalog.create_table("d.t", schema)
    with pytest.raises(UnsupportedError, match=r"encryption.key-id cannot be set"):
        table.set_properties({"encryption.key-id": "k"})


def test_what_only_looks_works(keys, tmp_path):
    found = sample("people")
    catalog = skerry.connect(tmp_path, key_management=keys)
    table = catalog.register_table("s.people", found.metadata)
    summary = table.expire_snapshots(keep_last=1, older_than=datetime.now(UTC), dry_run=True)
    assert len(summary.snapshot_ids) == 4
    assert {finding.check for finding in table.health()}
    assert table.inspect.position_deletes().num_rows > 0
    assert table.inspect.partitions().num_rows == 1


# ---- keys stay where they are ----


def secrets_of(table: skerry.Table) -> list[bytes]:
    handle = table.handle
    assert isinstance(handle, IcebergHandle)
    snapshot = handle.state.metadata.current_snapshot()
    found = [handle.state.storage.keys.manifest_list_key(snapshot.key_id).key, MASTER_KEY]
    for task in table.scan().plan():
        found += [decode_key_metadata(file.key_metadata).key for file in (task.data_file, *task.deletes)]
    return found


def test_no_key_is_printed_logged_or_shown(keys, tmp_path, caplog, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("SKERRY_CACHE_DIR", str(cache))
    caplog.set_level(logging.DEBUG)
    table = skerry.open_table(sample("people").metadata, key_management=keys)
    secrets = secrets_of(table)
    scan = table.scan()
    scan.to_arrow()
    shown = [
        repr(table),
        repr(table.handle.state),
        repr(table.handle.state.storage),
        repr(table.handle.state.storage.keys),
        repr(table.handle.catalog.key_ring),
        repr(scan.plan()[:]),
        repr(scan.plan_table().to_pylist()),
        repr(table.inspect.files().to_pylist()),
        repr(table.inspect.manifests().to_pylist()),
        repr(table.inspect.entries().to_pylist()),
        str(scan.explain()),
        caplog.text,
    ]
    for secret in secrets:
        for text in (secret.hex(), repr(secret)[2:-1], base64.b64encode(secret).decode()):
            assert not [place for place in shown if text in place]
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path != keys.path]
    assert not [data for data in stored if any(secret in data for secret in secrets)]


def test_a_copy_in_another_process_has_no_keys_but_those_of_its_files(keys):
    table = skerry.open_table(sample("people").metadata, key_management=keys)
    state = table.handle.state
    assert pickle.loads(pickle.dumps(state.storage)).keys is None
    assert secrets_of(table)[0] not in pickle.dumps(state)
    tasks = pickle.loads(pickle.dumps(table.scan().plan()[:]))
    assert all(task.data_file.key_metadata for task in tasks)


@pytest.mark.parametrize("name", NAMES)
def test_tasks_elsewhere_read_what_they_are_given(name, keys):
    found = sample(name)
    table = skerry.open_table(found.metadata, key_management=keys)
    connector = table.connector()
    scan = connector.scan(None, "id > 10", None, None)
    reader = pickle.loads(pickle.dumps(scan.row_reader()))
    batches = reader.batches(pickle.loads(pickle.dumps(list(connector.pieces(scan)))))
    wanted = [row for row in found.states["current"] if row["id"] > 10]
    assert plain_rows(pa.Table.from_batches(batches)) == wanted
    stream = connector.stream(StreamChoice(changes=True, on=("id",)))
    first = stream.latest(None)
    rows: dict[int, str] = {}
    for end in (first, stream.latest(first)):
        tasks = pickle.loads(pickle.dumps(stream.plan(stream.initial() if end is first else first, end)))
        assert not any(secret.hex() in repr(tasks) for secret in secrets_of(table))
        for task in tasks:
            for row in pa.Table.from_batches(task.batches(), stream.schema).to_pylist():
                rows[row["id"]] = row["_change_type"]
    deleted = {id_ for id_, kind in rows.items() if kind == "DELETE"}
    assert rows.keys() - deleted == {row["id"] for row in found.states["current"]}


# ---- hostile files and metadata ----


def changed_files(found: Sample, kind: str) -> list[str]:
    """The files of a kind that the newest state reads."""
    table = skerry.open_table(found.metadata, key_management=Vault())
    snapshot = table.handle.state.metadata.current_snapshot()
    tasks = table.scan().plan()
    manifests = [row["path"] for row in table.inspect.manifests().to_pylist()]
    return {
        "list": [snapshot.manifest_list],
        "manifest": manifests,
        "data": [task.data_file.location for task in tasks],
        "deletes": [delete.location for task in tasks for delete in task.deletes],
    }[kind]


DAMAGES = {
    "truncated": lambda data: data[:-7],
    "longer": lambda data: data + b"\0",
    "empty": lambda _: b"",
    "other magic": lambda data: b"AGS2" + data[4:],
    "tag": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "content": lambda data: data[:30] + bytes([data[30] ^ 1]) + data[31:],
    "plain": lambda _: b"PAR1" + bytes(40) + b"PAR1",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["list", "manifest", "data", "deletes"])
@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_told(name, kind, damage):
    found = sample(name)
    storage = Storage()
    for location in changed_files(found, kind):
        data = storage.read(location)
        if data[:4] == b"PARE" and damage in ("longer", "other magic"):
            continue  # what lies before and after a Parquet file is not its content
        if kind == "deletes" and damage == "longer":
            continue  # only the part of the vector is read, and where it ends its key metadata says
        storage.write(location, DAMAGES[damage](data), overwrite=True)
        with pytest.raises(FormatError) as caught:
            skerry.open_table(found.metadata, key_management=Vault()).scan().to_arrow()
        assert caught.value.location == location
        storage.write(location, data, overwrite=True)


def test_files_cannot_take_the_place_of_others():
    found = sample("people_avro")
    storage = Storage()
    one, other, *_ = changed_files(found, "data")
    storage.write(one, storage.read(other), overwrite=True)
    with pytest.raises(FormatError, match=r"has \d+ bytes, its key|cannot be decrypted"):
        skerry.open_table(found.metadata, key_management=Vault()).scan().to_arrow()


HOSTILE = {
    "no keys": lambda metadata: metadata.pop("encryption-keys"),
    "a key of itself": lambda metadata: [
        key.update({"encrypted-by-id": key["key-id"]}) for key in metadata["encryption-keys"]
    ],
    "another table key": lambda metadata: metadata["properties"].update({"encryption.key-id": "keyB"}),
    "no table key": lambda metadata: metadata["properties"].pop("encryption.key-id"),
    "another time": lambda metadata: [
        key["properties"].update(KEY_TIMESTAMP="1") for key in metadata["encryption-keys"] if key.get("properties")
    ],
    "no time": lambda metadata: [key.pop("properties", None) for key in metadata["encryption-keys"]],
    "not Base64": lambda metadata: [key.update({"encrypted-key-metadata": "§"}) for key in metadata["encryption-keys"]],
    "short keys": lambda metadata: [
        key.update({"encrypted-key-metadata": "AAAA"}) for key in metadata["encryption-keys"]
    ],
    "swapped keys": lambda metadata: [
        snapshot.update({"key-id": metadata["snapshots"][0]["key-id"]}) for snapshot in metadata["snapshots"][1:]
    ],
    "an unknown key": lambda metadata: [snapshot.update({"key-id": "x"}) for snapshot in metadata["snapshots"]],
    "no key of the list": lambda metadata: [snapshot.pop("key-id") for snapshot in metadata["snapshots"]],
}


@pytest.mark.parametrize("change", HOSTILE)
def test_hostile_metadata(change):
    found = sample("people")
    storage = Storage()
    metadata = json.loads(storage.read(found.metadata))
    HOSTILE[change](metadata)
    location = found.metadata.replace(".metadata.json", "-x.metadata.json")
    storage.write(location, json.dumps(metadata).encode(), overwrite=True)
    with pytest.raises(FormatError):
        skerry.open_table(location, key_management=Vault()).scan().to_arrow()


def test_files_of_a_format_that_is_not_decrypted_are_refused(keys):
    table = skerry.open_table(sample("people").metadata, key_management=keys)
    scan = table.scan()
    task = scan.plan()[0]
    orc = dataclasses.replace(task, data_file=dataclasses.replace(task.data_file, file_format="orc"), deletes=())
    with pytest.raises(SkerryError, match="encrypted orc files are not supported"):
        list(scan.row_reader().batches([orc]))
