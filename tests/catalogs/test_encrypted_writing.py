"""Encrypted tables are written: every file is encrypted, no key is lost, none comes out.

The catalog is Hive's, on a metastore in this process. Spark reads what is written so in
`tests/foreign/test_hive_metastore.py`.
"""

from __future__ import annotations

import base64
import json
import logging
import pickle
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import skerry
from metastore_server import Metastore, serving
from skerry.encryption import KeyFile, KeyManagement, decode_key_metadata, decrypt, encrypt
from skerry.errors import FormatError, SchemaError, StorageError, UnsupportedError
from skerry.iceberg.catalogs.base import IcebergCatalog
from skerry.iceberg.catalogs.hive_checksum import metadata_checksum, text_checksum
from skerry.iceberg.catalogs.pyiceberg_catalogs import PyIcebergCatalog
from skerry.iceberg.catalogs.rest import RestCatalog
from skerry.iceberg.catalogs.sql import SqlCatalog
from skerry.iceberg.catalogs.static import StaticCatalog
from skerry.iceberg.encryption import table_keys
from skerry.iceberg.evolution.property_checks import check_properties
from skerry.iceberg.jobs.publish import Publication, WriteMode, publish, write_share
from skerry.iceberg.metadata.metadata_json import decode_metadata
from skerry.iceberg.metadata.table_metadata import TableMetadata
from skerry.iceberg.writing import clustering
from skerry.table.merging import staged
from skerry.table.rows.spill_file import SpillFile

MASTER_KEY = b"0123456789012345"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
MARK = "a text that nobody may see"
TABLES = {
    "parquet": {"write.delete.mode": "merge-on-read"},
    "copies": {"encryption.data-key-length": "24", "write.parquet.compression-codec": "uncompressed"},
    "avro": {
        "write.format.default": "avro",
        "encryption.data-key-length": "32",
        "write.avro.compression-codec": "uncompressed",
        "write.delete.mode": "merge-on-read",
    },
}


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "name": [f"{MARK} {number}" for number in ids]}, SCHEMA)


def ids(table: skerry.Table) -> list[int]:
    return sorted(table.scan(columns=["id"]).to_arrow()["id"].to_pylist())


class Vault(KeyManagement):
    """Remembers the keys that it has wrapped."""

    def __init__(self) -> None:
        self.wrapped: list[bytes] = []

    def wrap_key(self, key: bytes, key_id: str) -> bytes:
        assert key_id == "keyA"
        self.wrapped.append(key)
        return encrypt(MASTER_KEY, key)

    def unwrap_key(self, wrapped: bytes, key_id: str) -> bytes:
        assert key_id == "keyA"
        return decrypt(MASTER_KEY, wrapped)


@pytest.fixture
def vault() -> Vault:
    return Vault()


@pytest.fixture
def metastore() -> Iterator[Metastore]:
    with serving(Metastore()) as found:
        yield found


@pytest.fixture
def catalog(metastore: Metastore, tmp_path: Path, vault: Vault) -> skerry.Catalog:
    found = skerry.connect(metastore.uri, warehouse=str(tmp_path), key_management=vault)
    found.create_namespace("ns")
    return found


def create(catalog: skerry.Catalog, properties: dict[str, str] | None = None, **options: object) -> skerry.Table:
    given = {"encryption.key-id": "keyA", **(properties or {})}
    return catalog.create_table("ns.t", SCHEMA, format_version=3, properties=given, **options)


def metadata_of(table: skerry.Table) -> TableMetadata:
    table.refresh()
    return table.handle.state.metadata


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".json")]


@pytest.mark.parametrize("name", TABLES)
def test_everything_is_encrypted(name: str, catalog: skerry.Catalog, tmp_path: Path, vault: Vault) -> None:
    table = create(catalog, TABLES[name], partition_by=["bucket(2, id)"])
    table.append(rows(*range(20)))
    table.append(rows(20, 21))
    table.delete("id IN (1, 2)")
    table.update({"name": "'other'"}, where="id = 3")
    table.upsert(rows(4, 30), on=["id"])
    table.upsert(rows(5), on=["id"], blind=True)
    table.delete("id = 5")
    table.create_branch("side")
    table.append(rows(99), ref="side")
    assert ids(table) == [0, 3, 4, *range(6, 22), 30]
    table.compact()
    assert table.rewrite_manifests(full=True).added_manifests > 0
    assert ids(table) == [0, 3, 4, *range(6, 22), 30]
    again = skerry.connect(catalog.properties["uri"], key_management=vault).load_table("ns.t")
    assert ids(again) == ids(table)
    assert again.scan(ref="side").count() == 21
    assert again.scan(where="id = 3").to_arrow()["name"].to_pylist() == ["other"]
    changes = again.changes(again.snapshots()[0].snapshot_id, again.snapshots()[1].snapshot_id).to_arrow()
    assert sorted(changes["id"].to_pylist()) == [20, 21]
    found = files_of(tmp_path)
    magics = {path.read_bytes()[:4] for path in found}
    assert magics == ({b"AGS1"} if name == "avro" else {b"AGS1", b"PARE"})
    assert not [path for path in found if MARK.encode() in path.read_bytes()]
    keys = {len(decode_key_metadata(task.data_file.key_metadata).key) for task in table.scan().plan()}
    assert keys == {int(TABLES[name].get("encryption.data-key-length", "16"))}
    assert len(vault.wrapped) == 1


def test_every_file_has_its_own_key_and_its_length(catalog: skerry.Catalog, tmp_path: Path) -> None:
    table = create(catalog, {"write.delete.mode": "merge-on-read"})
    for number in range(3):
        table.append(rows(number * 2, number * 2 + 1))
        table.delete(f"id = {number * 2}")
    metadata = metadata_of(table)
    storage = table.handle.state.storage
    keys = [storage.keys.manifest_list_key(snapshot.key_id) for snapshot in metadata.snapshots]
    sizes = [Path(str(one.manifest_list).removeprefix("file://")).stat().st_size for one in metadata.snapshots]
    assert [key.file_length for key in keys] == sizes
    for task in table.scan().plan():
        for file in (task.data_file, *task.deletes):
            key = decode_key_metadata(file.key_metadata)
            assert key.file_length == file.file_size_bytes
            keys.append(key)
    assert len({key.key for key in keys}) == len(keys)
    assert len({key.aad_prefix for key in keys}) == len(keys)
    assert {len(key.aad_prefix) for key in keys} == {16}
    for path in files_of(tmp_path):
        assert not [key for key in keys if key.key in path.read_bytes()]


def test_no_commit_loses_keys(catalog: skerry.Catalog, monkeypatch: pytest.MonkeyPatch, vault: Vault) -> None:
    """One key encrypts those of all manifest lists, for two years; expired ones still decrypt what they encrypted."""
    table = create(catalog)
    table.append(rows(1))
    table.append(rows(2))
    table.set_properties({"a": "b"})
    table.create_tag("v1")
    first = metadata_of(table).encryption_keys
    assert [key.encrypted_by_id for key in first] == ["keyA", first[0].key_id, first[0].key_id]
    assert [one.key_id for one in metadata_of(table).snapshots] == [key.key_id for key in first[1:]]
    now = time.time

    monkeypatch.setattr("skerry.iceberg.commit.time.time", lambda: now() + 729 * 86400)
    table.append(rows(3))
    assert len(metadata_of(table).encryption_keys) == 4
    monkeypatch.setattr("skerry.iceberg.commit.time.time", lambda: now() + 731 * 86400)
    table.append(rows(4))
    keys = metadata_of(table).encryption_keys
    assert [key.encrypted_by_id for key in keys[4:]] == ["keyA", keys[4].key_id]
    assert keys[:4] == metadata_of(table).encryption_keys[:4]
    assert len(vault.wrapped) == 2
    assert ids(table) == [1, 2, 3, 4]
    table.expire_snapshots(keep_last=1, older_than=skerry_now(now() + 800 * 86400))
    assert metadata_of(table).encryption_keys == keys
    assert ids(table) == [1, 2, 3, 4]


def skerry_now(seconds: float) -> object:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(seconds, UTC)


def test_a_lost_race_loses_neither_rows_nor_keys(
    catalog: skerry.Catalog, metastore: Metastore, tmp_path: Path, vault: Vault
) -> None:
    table = create(catalog)
    other = skerry.connect(metastore.uri, key_management=vault).load_table("ns.t")

    def overtaking(name: str) -> None:
        if name == "lock":
            metastore.before = lambda _name: None
            other.append(rows(1))

    metastore.before = overtaking
    table.append(rows(2))
    assert ids(table) == [1, 2]
    again = skerry.connect(metastore.uri, key_management=vault).load_table("ns.t")
    assert ids(again) == [1, 2]
    assert len(files_of(tmp_path)) == 6
    assert not again.remove_orphans(older_than_days=0, dry_run=True).files


def test_expiry_beside_another_writer(
    catalog: skerry.Catalog, metastore: Metastore, tmp_path: Path, vault: Vault, caplog: pytest.LogCaptureFixture
) -> None:
    """Its snapshot has a key that the state which the expiry began with does not have."""
    table = create(catalog)
    for number in range(3):
        table.overwrite(rows(number))
    other = skerry.connect(metastore.uri, key_management=vault).load_table("ns.t")

    def overtaking(name: str) -> None:
        if name == "lock":
            metastore.before = lambda _name: None
            other.append(rows(9))

    metastore.before = overtaking
    table.expire_snapshots(keep_last=1, older_than=skerry_now(time.time() + 9))
    assert ids(table) == [2, 9]
    assert not caplog.records
    before = files_of(tmp_path)
    table.remove_orphans(older_than_days=0)
    assert files_of(tmp_path) == before


def test_a_state_that_no_catalog_knows_keeps_its_files(catalog: skerry.Catalog, tmp_path: Path) -> None:
    """Its manifest lists have keys that only its own metadata names: a commit whose outcome nobody learnt."""
    table = create(catalog)
    table.append(rows(1))
    location = Path(metadata_of(table) and table.metadata_location.removeprefix("file://"))
    table.append(rows(2))
    newest = Path(table.metadata_location.removeprefix("file://"))
    table.delete("id = 2")
    catalog.drop_table("ns.t")
    again = catalog.register_table("ns.t", str(location))
    before = files_of(tmp_path)
    assert newest.exists()
    again.remove_orphans(older_than_days=0)
    assert files_of(tmp_path) == before
    assert ids(catalog.register_table("ns.u", str(newest))) == [1, 2]


# ---- the metadata file is proved ----


def test_the_checksum_is_that_of_iceberg_java() -> None:
    """Of every metadata file that Java has written, its text is what the checksum is of."""
    compared = 0
    for archive in sorted((Path(__file__).parents[1] / "foreign" / "data").rglob("*.tar.xz")):
        with tarfile.open(archive) as files:
            for member in files:
                if not member.name.endswith(".metadata.json"):
                    continue
                data = files.extractfile(member)
                assert data is not None
                text = data.read()
                found = metadata_checksum(decode_metadata(text))
                assert found in (None, text_checksum(text)), member.name
                compared += found is not None
    assert compared > 20


@pytest.mark.parametrize("change", ["snapshots", "key", "length", "no key"])
def test_changed_metadata_is_refused(change: str, catalog: skerry.Catalog, metastore: Metastore) -> None:
    table = create(catalog, {"encryption.data-key-length": "32"})
    table.append(rows(1))
    location = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(location.read_text())
    if change == "snapshots":
        metadata["snapshots"][0]["summary"]["total-records"] = "0"
    elif change == "length":
        metadata["properties"]["encryption.data-key-length"] = "16"
    elif change == "key":
        metadata["properties"]["encryption.key-id"] = "keyB"
    else:
        del metadata["properties"]["encryption.key-id"], metadata["encryption-keys"]
    location.write_text(json.dumps(metadata))
    with pytest.raises(FormatError, match="the metadata file was changed: its checksum is not that in the metastore"):
        catalog.load_table("ns.t")
    metastore.set_parameters("ns", "t", metadata_hash="")  # as an older Iceberg leaves it
    if change == "snapshots":
        assert catalog.load_table("ns.t").name == "ns.t"
        return
    with pytest.raises(FormatError, match=r"was changed: its property encryption\.(key-id|data-key-length) is"):
        catalog.load_table("ns.t")


def test_the_checksum_follows_every_commit(catalog: skerry.Catalog, metastore: Metastore) -> None:
    table = create(catalog, {"quote": 'a "b" \u0001 \\u00e4 ä\n'})
    for _ in range(2):
        table.append(rows(1))
        table.update_schema().add_column(f"c{len(table.schema)}", pa.struct([("x", pa.list_(pa.int32()))])).commit()
        catalog.load_table("ns.t")
    table.set_properties({"commit.retry.num-retries": "3"})
    checksum = metastore.parameters("ns", "t")["metadata_hash"]
    assert checksum == metadata_checksum(metadata_of(table))
    assert metastore.parameters("ns", "t")["encryption.key-id"] == "keyA"
    table.update_schema().add_column("d", pa.float64(), default_value=0.5).commit()
    assert "metadata_hash" not in metastore.parameters("ns", "t")
    assert metadata_of(table).statistics == ()
    assert catalog.load_table("ns.t").schema.names[-1] == "d"


# ---- what is not encrypted is not made ----


def test_statistics_and_indexes_are_not_made(catalog: skerry.Catalog, tmp_path: Path) -> None:
    table = create(catalog)
    table.append(rows(1, 2))
    found = table.statistics()["id"]
    assert str(found.freshness) == "absent: the table is encrypted, and files of statistics are not"
    assert (found.ndv, found.min, found.max) == (None, 1, 2)
    with pytest.raises(UnsupportedError, match="files of statistics are not"):
        table.analyze()
    with pytest.raises(UnsupportedError, match="indexes are not encrypted"):
        table.create_index(["id"], kind="hash")
    assert metadata_of(table).statistics == ()
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".stats", ".puffin")]


def test_rows_that_wait_on_disk_are_encrypted(catalog: skerry.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of many partitions, in a sort order that needs several ranges, on disk as nobody can read them."""
    spilled = []
    take = SpillFile.take

    def watched(self: SpillFile, key: object) -> Iterator[pa.RecordBatch]:
        spilled.append(Path(self._folder.name, "rows").read_bytes())
        return take(self, key)

    monkeypatch.setattr(SpillFile, "take", watched)
    monkeypatch.setattr("skerry.iceberg.writing.table_writers.MAX_BUFFERED_BYTES", 2000)
    monkeypatch.setattr("skerry.iceberg.writing.table_writers.MAX_OPEN_FILES", 2)
    table = create(catalog, partition_by=["bucket(8, id)"])
    table.append(pa.Table.from_batches(rows(*range(300)).to_batches(max_chunksize=20)))
    assert ids(table) == list(range(300))
    written = len(spilled)
    assert written
    sort = clustering.sorted_batches
    monkeypatch.setattr(
        clustering, "sorted_batches", lambda *given, **more: sort(*given, **more | {"range_bytes": 500})
    )
    table.compact(z_order=["id", "name"])
    assert ids(table) == list(range(300))
    assert len(spilled) > written
    assert not [data for data in spilled if b"nobody" in data]


@pytest.mark.parametrize("mode", [WriteMode.APPEND, WriteMode.UPSERT])
def test_rows_of_tasks_do_not_wait_for_the_commit_as_they_are(catalog: skerry.Catalog, mode: WriteMode) -> None:
    table = create(catalog)
    table.append(rows(0))
    layout, on = table.handle.layout(), ("id",) if mode is WriteMode.UPSERT else ()
    shares = [write_share(layout, mode, rows(number).to_batches()) for number in range(2)]
    written = [Path(location.removeprefix("file://")).read_bytes() for share in shares for location in share.locations]
    assert len(written) == 2
    assert not [data for data in written if MARK.encode() in data]
    publish(table.handle, layout, pickle.loads(pickle.dumps(shares)), Publication(mode, on=on))
    assert ids(table) == ([0, 0, 1] if mode is WriteMode.APPEND else [0, 1])


def test_rows_that_are_merged_in_tasks_are_encrypted(catalog: skerry.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = create(catalog)
    table.append(rows(0, 1))
    stage_all, parts = staged.stage, []

    def watched(*given: object, **how: object) -> staged.StagedRows:
        found = stage_all(*given, **how)
        parts.extend(Path(part.location.removeprefix("file://")).read_bytes() for part in found.parts)
        assert "secret" not in repr(found)
        return found

    monkeypatch.setattr("skerry.iceberg.jobs.merge.stage", watched)
    source = staged.LocalRows(rows(1, 2).to_reader())
    done = table.merge(source, on="id", when_matched="update", when_not_matched="insert")
    assert (done.updated_rows, ids(table)) == (1, [0, 1, 2])
    assert parts
    assert not [data for data in parts if MARK.encode() in data]


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_spill_file_gives_back_what_it_was_given(*, is_encrypted: bool) -> None:
    given = [rows(*range(start, start + 50)).to_batches()[0] for start in range(0, 500, 50)]
    with SpillFile(SCHEMA, is_encrypted=is_encrypted) as file:
        for number, batch in enumerate(given):
            file.add(number % 3, batch)
        sizes = [file.size_bytes(key) for key in range(3)]
        assert min(sizes) > 0
        stored = Path(file._folder.name, "rows").read_bytes()
        assert stored.startswith(b"\xff\xff\xff\xff")  # the schema, which is no row
        assert not (is_encrypted and b"nobody" in stored)
        for key in range(3):
            assert list(file.take(key)) == given[key::3]
        assert list(file.take(0)) == []


REFUSED = {
    "orc": ({"write.format.default": "orc"}, UnsupportedError, "orc files are not encrypted"),
    "amudai": ({"write.format.default": "amudai"}, UnsupportedError, "amudai files are not encrypted"),
    "length": ({"encryption.data-key-length": "17"}, SchemaError, "must be 16, 24 or 32"),
    "index": ({"skerry.index.i": "hash(id)"}, UnsupportedError, "indexes are not encrypted"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_not_be_encrypted_is_refused(name: str, catalog: skerry.Catalog) -> None:
    properties, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        create(catalog, properties)
    assert catalog.list_tables() == []


def test_files_are_not_added_and_columns_without_encryption_are_refused(
    catalog: skerry.Catalog, tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    table = create(catalog)
    table.append(rows(1))
    pq.write_table(rows(2), tmp_path / "ns.db" / "t" / "plain.parquet")
    with pytest.raises(UnsupportedError, match="files that exist are not"):
        table.add_files([str(tmp_path / "ns.db" / "t" / "plain.parquet")])
    with pytest.raises(UnsupportedError, match="orc files are not encrypted"):
        table.set_properties({"write.format.default": "orc"})
    with pytest.raises(UnsupportedError, match="cannot be set, changed or removed"):
        table.remove_properties("encryption.key-id")
    with pytest.raises(UnsupportedError, match="cannot be set, changed or removed"):
        table.set_properties({"encryption.key-id": "keyB"})
    plain = catalog.create_table("ns.plain", SCHEMA, format_version=3)
    with pytest.raises(UnsupportedError, match="cannot be set: a table is encrypted from its first file to its last"):
        plain.set_properties({"encryption.key-id": "keyA"})
    assert ids(table) == [1]


def test_version_2_and_no_key_management(catalog: skerry.Catalog, metastore: Metastore) -> None:
    with pytest.raises(SchemaError, match="need format version 3"):
        catalog.create_table("ns.t", SCHEMA, properties={"encryption.key-id": "keyA"})
    create(catalog).append(rows(1))
    without = skerry.connect(metastore.uri)
    with pytest.raises(UnsupportedError, match="needs a key management"):
        without.create_table("ns.u", SCHEMA, format_version=3, properties={"encryption.key-id": "keyA"})
    with pytest.raises(UnsupportedError, match="needs a key management"):
        without.load_table("ns.t").append(rows(2))
    without.drop_table("ns.t")


@pytest.mark.parametrize("kind", [SqlCatalog, RestCatalog, PyIcebergCatalog, StaticCatalog])
def test_other_catalogs_have_no_encrypted_tables(kind: type[IcebergCatalog]) -> None:
    """Whoever writes there does not encrypt: neither do we, nor do we write plaintext into an encrypted table."""
    found = kind.__new__(kind)
    found.key_ring = table_keys.KeyRing(Vault())
    reason = found.why_not_encrypted()
    assert reason is not None
    assert f"only read in this kind of catalog ({kind.__name__})" in reason
    wanted = {"format-version": "3", "encryption.key-id": "keyA"}
    with pytest.raises(UnsupportedError, match=r"encryption\.key-id cannot be set: encrypted tables are only read"):
        check_properties(wanted, SCHEMA, why_not_encrypted=reason)


# ---- keys stay where they are ----


class Silent(Vault):
    def wrap_key(self, key: bytes, key_id: str) -> bytes:
        raise ValueError(f"cannot wrap {key!r}")


class Lazy(Vault):
    def wrap_key(self, key: bytes, key_id: str) -> bytes:
        return key


def test_a_key_management_that_fails(metastore: Metastore, tmp_path: Path) -> None:
    catalog = skerry.connect(metastore.uri, warehouse=str(tmp_path), key_management=Silent())
    catalog.create_namespace("ns")
    table = create(catalog)
    with pytest.raises(StorageError, match="refuses or does not know key 'keyA': ValueError") as caught:
        table.append(rows(1))
    assert "cannot wrap" not in str(caught.value)
    assert caught.value.__cause__ is None
    with pytest.raises(FormatError, match="did not wrap a key"):
        skerry.connect(metastore.uri, key_management=Lazy()).load_table("ns.t").append(rows(1))
    assert files_of(tmp_path) == []
    assert metadata_of(table).encryption_keys == ()


def test_no_key_is_printed(
    catalog: skerry.Catalog, caplog: pytest.LogCaptureFixture, vault: Vault, metastore: Metastore, tmp_path: Path
) -> None:
    with caplog.at_level(logging.DEBUG):
        table = create(catalog, {"write.delete.mode": "merge-on-read"})
        table.append(rows(*range(9)))
        table.delete("id = 1")
        table.compact()
    state = table.handle.state
    snapshot = state.metadata.current_snapshot()
    keys = [MASTER_KEY, *vault.wrapped, state.storage.keys.manifest_list_key(snapshot.key_id).key]
    keys += [decode_key_metadata(task.data_file.key_metadata).key for task in table.scan().plan()]
    shown = "\n".join(
        [
            caplog.text,
            repr((table, catalog, state, state.storage.keys, table.handle.layout(), catalog._iceberg.catalog.key_ring)),
            str(table.inspect.files().to_pylist()),
            str(metastore.tables),
            *(path.read_text() for path in tmp_path.rglob("*.json")),
        ]
    )
    for key in keys:
        for text in (key.hex(), base64.b64encode(key).decode(), repr(key)[2:-1], key.decode("latin-1")):
            assert text not in shown
    assert re.search(r"encrypted-key-metadata", shown)


def test_other_processes_open_the_catalog_themselves(metastore: Metastore, tmp_path: Path) -> None:
    """What is pickled names the key management, and has no key."""
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keyA": base64.b64encode(MASTER_KEY).decode()}))
    path.chmod(0o600)
    catalog = skerry.connect(metastore.uri, warehouse=str(tmp_path / "w"), key_management=KeyFile(path))
    catalog.create_namespace("ns")
    create(catalog).append(rows(1))
    sent = pickle.dumps(catalog.load_table("ns.t"))
    assert MASTER_KEY not in sent
    other = pickle.loads(sent)
    other.append(rows(2))
    assert ids(catalog.load_table("ns.t")) == [1, 2]


def test_a_key_file_wraps_and_unwraps(metastore: Metastore, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"keyA": base64.b64encode(MASTER_KEY).decode()}))
    path.chmod(0o600)
    properties = {"encryption.key-management": "skerry.encryption:KeyFile", "encryption.key-file": str(path)}
    catalog = skerry.connect(metastore.uri, warehouse=str(tmp_path / "w"), **properties)
    catalog.create_namespace("ns")
    create(catalog).append(rows(1))
    again = skerry.connect(metastore.uri, key_management=KeyFile(path)).load_table("ns.t")
    assert ids(again) == [1]
    assert table_keys.KeyRing(KeyFile(path)).wrap(MASTER_KEY, "keyA") != MASTER_KEY
