"""Where tables lie in the sweep: each place can be put back to what it was when it was saved."""

from __future__ import annotations

import base64
import hashlib
import importlib
import itertools
import json
import shutil
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import skerry
from skerry.encryption import KeyFile

sys.path.insert(0, str(Path(__file__).parents[1]))

from metastore_server import Metastore, serving

__all__ = ["FolderPlace", "HivePlace", "Place", "PostgresPlace", "RestPlace", "S3Place", "place_of"]


class Place(Protocol):
    """A catalog and its files.

    Args:
        formats: What tables it can have.
        lacks: Operations that fail there without a fault.
    """

    formats: tuple[str, ...]
    lacks: frozenset[str]

    def connect(self) -> skerry.catalog.Catalog:
        """The catalog, opened anew."""

    def save(self) -> None:
        """Keep what is there."""

    def reset(self) -> None:
        """Bring back what was kept; nothing, if nothing was."""

    def clear(self) -> None:
        """Forget everything."""

    def fingerprint(self) -> bytes | None:
        """Equal where all files and the catalog are equal, byte for byte; None if that cannot be said."""

    def files(self) -> dict[str, int]:
        """All files, without those of the catalog's database, and their sizes."""

    def put(self, name: str, data: bytes) -> str:
        """Write a file; returns its location."""


@dataclass
class FolderPlace:
    """A folder with its SQLite catalog.

    Args:
        folder: A folder of its own.
    """

    folder: Path
    formats: tuple[str, ...] = ("iceberg", "paimon")
    lacks: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.warehouse, self.saved = self.folder / "warehouse", self.folder / "saved"
        self.clear()

    def connect(self) -> skerry.catalog.Catalog:
        return skerry.connect(self.warehouse)

    def save(self) -> None:
        shutil.rmtree(self.saved, ignore_errors=True)
        shutil.copytree(self.warehouse, self.saved)

    def reset(self) -> None:
        shutil.rmtree(self.warehouse, ignore_errors=True)
        if self.saved.exists():
            shutil.copytree(self.saved, self.warehouse)
        else:
            self.warehouse.mkdir(parents=True)

    def clear(self) -> None:
        shutil.rmtree(self.saved, ignore_errors=True)
        self.reset()

    def fingerprint(self) -> bytes | None:
        digest = hashlib.sha256()
        for path in sorted(self.warehouse.rglob("*")):
            data = path.read_bytes() if path.is_file() else b""
            digest.update(f"{path.relative_to(self.warehouse)}\0{path.is_file()}\0{len(data)}\0".encode())
            digest.update(data)
        return digest.digest()

    def files(self) -> dict[str, int]:
        return {
            str(path.relative_to(self.warehouse)): path.stat().st_size
            for path in sorted(self.warehouse.rglob("*"))
            if path.is_file() and not path.name.startswith("catalog.db")
        }

    def put(self, name: str, data: bytes) -> str:
        path = self.warehouse / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return f"file://{path}"


@dataclass
class HivePlace(FolderPlace):
    """A Hive metastore, whose tables lie in a folder and are encrypted. It is in the process that sweeps."""

    formats: tuple[str, ...] = ("iceberg",)
    lacks: frozenset[str] = frozenset({"iceberg:migrate-folder"})  # files that exist are not encrypted

    def __post_init__(self) -> None:
        self.metastore, self._kept = Metastore(forgets_locks=True), Metastore()
        self._serving = serving(self.metastore)
        self._serving.__enter__()
        self.keys = self.folder.with_name("keys.json")
        self.keys.write_text(json.dumps({"key": base64.b64encode(bytes(range(16))).decode()}))
        self.keys.chmod(0o600)
        KeyFile(self.keys).wrap_key(bytes(16), "key")  # every fork has what this loads
        importlib.import_module("skerry.iceberg.catalogs.hive")
        super().__post_init__()

    def connect(self) -> skerry.catalog.Catalog:
        catalog = skerry.connect(
            self.metastore.uri, warehouse=f"file://{self.warehouse}", key_management=KeyFile(self.keys)
        )
        create = catalog.create_table

        def encrypted(name: str, schema: Any, **given: Any) -> Any:
            properties = {"encryption.key-id": "key", **(given.pop("properties", None) or {})}
            return create(name, schema, **{"format_version": 3, **given}, properties=properties)

        catalog.create_table = encrypted  # type: ignore[method-assign]
        return catalog

    def save(self) -> None:
        super().save()
        self._kept.take(self.metastore)

    def reset(self) -> None:
        super().reset()
        self.metastore.take(self._kept)

    def clear(self) -> None:
        self._kept = Metastore()
        super().clear()

    def fingerprint(self) -> bytes | None:
        return (super().fingerprint() or b"") + repr((self.metastore.databases, self.metastore.tables)).encode()


@dataclass
class S3Place:
    """A SQLite file whose tables lie in a bucket.

    Args:
        folder: A folder of its own, for the database.
        options: Storage options.
        bucket: The bucket; all of it is the place's.
    """

    folder: Path
    options: Mapping[str, str]
    bucket: str
    formats: tuple[str, ...] = ("iceberg", "paimon")
    lacks: frozenset[str] = frozenset()
    _saved: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    _client: Any = None

    def __post_init__(self) -> None:
        self.database = self.folder / "catalog.db"
        self.clear()

    @property
    def client(self) -> Any:
        """A client that is not skerry's: obstore would not survive the fork."""
        if self._client is None:
            import boto3

            self._client = boto3.client(
                "s3",
                endpoint_url=self.options["s3.endpoint"],
                aws_access_key_id=self.options["s3.access-key-id"],
                aws_secret_access_key=self.options["s3.secret-access-key"],
                region_name=self.options["s3.region"],
            )
        return self._client

    def connect(self) -> skerry.catalog.Catalog:
        return skerry.connect(f"sqlite:///{self.database}", warehouse=f"s3://{self.bucket}/lake", **self.options)

    def _listed(self) -> dict[str, tuple[str, int]]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return {found["Key"]: (found["ETag"], found["Size"]) for page in pages for found in page.get("Contents", [])}

    def save(self) -> None:
        self._saved = {
            key: (etag, self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read())
            for key, (etag, _) in self._listed().items()
        }
        if self.database.exists():
            shutil.copyfile(self.database, self.folder / "saved.db")

    def reset(self) -> None:
        now = self._listed()
        gone = [{"Key": key} for key in now if key not in self._saved]
        if gone:
            self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": gone})
        for key, (etag, data) in self._saved.items():
            if key not in now or now[key][0] != etag:
                self.client.put_object(Bucket=self.bucket, Key=key, Body=data)
        for path in self.folder.glob("catalog.db*"):
            path.unlink()
        if (self.folder / "saved.db").exists():
            shutil.copyfile(self.folder / "saved.db", self.database)

    def clear(self) -> None:
        self._saved = {}
        (self.folder / "saved.db").unlink(missing_ok=True)
        self.reset()

    def fingerprint(self) -> bytes | None:
        database = self.database.read_bytes() if self.database.exists() else b""
        return hashlib.sha256(repr((sorted(self._listed().items()), database)).encode()).digest()

    def files(self) -> dict[str, int]:
        return {key: size for key, (_, size) in sorted(self._listed().items())}

    def put(self, name: str, data: bytes) -> str:
        self.client.put_object(Bucket=self.bucket, Key=f"lake/{name}", Body=data)
        return f"s3://{self.bucket}/lake/{name}"


_EMPTY = "2e1cfa82b035c26cbbbdae632cea070514eb8b773f616aaeaf668e2f0be8f10d"
"""Nessie's hash of the commit before all others: branches made from it have no tables of anybody else."""


NESSIE_LACKS = frozenset(
    {
        "iceberg:update_schema",  # it refuses the schema's number
        "iceberg:upgrade",
        "iceberg:migrate-folder",  # files are in places that the server chooses
        "iceberg:inspect",  # it keeps one snapshot
    }
)


@dataclass
class RestPlace(S3Place):
    """Nessie's REST catalog, which goes back to a saved state by a branch of its own.

    Args:
        uri: What clients call `uri`.
        warehouse: What clients call `warehouse`.
    """

    uri: str = ""
    warehouse: str = ""
    formats: tuple[str, ...] = ("iceberg",)
    lacks: frozenset[str] = NESSIE_LACKS
    _branch: str = "main"
    _base: dict[str, Any] | None = None
    _numbers: Any = field(default_factory=itertools.count)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        request = urllib.request.Request(
            f"{self.uri.removesuffix('iceberg/')}api/v2/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def connect(self) -> skerry.catalog.Catalog:
        offered = {"view-endpoints-supported": "true"}  # Nessie does not say so
        return skerry.connect(f"rest+{self.uri}{self._branch}/", warehouse=self.warehouse, **offered)

    def save(self) -> None:
        super().save()
        self._base = self._ask("GET", f"trees/{self._branch}")["reference"]

    def reset(self) -> None:
        super().reset()
        base = self._base or {"type": "BRANCH", "name": "main", "hash": _EMPTY}
        self._branch = f"sweep-{id(self)}-{next(self._numbers)}"
        self._ask("POST", f"trees?name={self._branch}&type=BRANCH", base)

    def clear(self) -> None:
        self._base = None
        super().clear()

    def fingerprint(self) -> bytes | None:
        return None  # every reset makes a branch with another name

    def put(self, name: str, data: bytes) -> str:
        raise NotImplementedError("a REST catalog chooses the places of its tables")


@dataclass
class PostgresPlace(FolderPlace):
    """A PostgreSQL database whose tables lie in a folder; what is in it cannot be brought back.

    Args:
        uri: The database.
    """

    uri: str = ""

    def connect(self) -> skerry.catalog.Catalog:
        return skerry.connect(self.uri, warehouse=f"file://{self.warehouse}")

    def fingerprint(self) -> bytes | None:
        return None  # the database is a server's

    def clear(self) -> None:
        super().clear()
        if self.uri:
            catalog = self.connect()
            for name in catalog.list_tables():
                catalog.drop_table(name)


def place_of(kind: str, folder: Path, settings: Mapping[str, Any]) -> Place:
    """A place by its name.

    Args:
        kind: `folder`, `s3`, `rest` or `postgres`.
        folder: A folder of its own.
        settings: The other arguments.
    """
    kinds = {"folder": FolderPlace, "s3": S3Place, "rest": RestPlace, "postgres": PostgresPlace}
    return kinds[kind](folder, **settings)
