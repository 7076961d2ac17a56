"""Connections to REST catalogs: certificates, proxies, processes that fork."""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import os
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from scripted_server import Reply, catalog_script, serving

from skerry.errors import StorageError
from skerry.http.http_client import HttpClient
from skerry.iceberg.catalogs.rest import RestCatalog


@pytest.fixture
def certificate(tmp_path):
    """Certificate and key of this machine, which signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (tmp_path / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")


def context(certificate, *, asks_for_one=False):
    found = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    found.load_cert_chain(*certificate)
    if asks_for_one:
        found.verify_mode = ssl.CERT_REQUIRED
        found.load_verify_locations(certificate[0])
    return found


def test_a_server_that_nobody_vouches_for_gets_no_request(certificate, monkeypatch):
    with serving(catalog_script(), context(certificate)) as server:
        with pytest.raises(StorageError, match="certificate verify failed"):
            RestCatalog("c", {"uri": server.uri, "token": "hush"})
        assert server.requests == []
        for options in ({"ssl": {"cabundle": certificate[0]}}, {"ssl.cabundle": certificate[0]}):
            assert RestCatalog("c", {"uri": server.uri, **options}).list_namespaces() == [("n",)]
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", certificate[0])
        assert RestCatalog("c", {"uri": server.uri}).list_namespaces() == [("n",)]


def test_a_server_that_asks_for_our_certificate(certificate):
    cert, key = certificate
    with serving(catalog_script(), context(certificate, asks_for_one=True)) as server:
        ours = {"ssl": {"cabundle": cert, "client": {"cert": cert, "key": key}}}
        assert RestCatalog("c", {"uri": server.uri, **ours}).list_namespaces() == [("n",)]
        with pytest.raises(StorageError):
            RestCatalog("c", {"uri": server.uri, "ssl": {"cabundle": cert}})


@pytest.mark.parametrize("form", ["http://{login}{place}", "{login}{place}"])
def test_a_proxy_of_the_environment_gets_the_requests(monkeypatch, form):
    with serving(catalog_script()) as proxy:
        place = proxy.uri.removeprefix("http://")
        monkeypatch.setenv("http_proxy", form.format(login="me:p%40ss@", place=place))
        monkeypatch.setenv("no_proxy", "")
        catalog = RestCatalog("c", {"uri": "http://catalog.invalid/there", "token": "t"})
        assert catalog.list_namespaces() == [("n",)]
        assert proxy.requests[0].path == "http://catalog.invalid/there/v1/config"
        assert proxy.requests[0].headers["proxy-authorization"] == ("Basic " + base64.b64encode(b"me:p@ss").decode())
        assert proxy.requests[0].headers["authorization"] == "Bearer t"
        monkeypatch.setenv("no_proxy", "catalog.invalid")
        with pytest.raises(StorageError, match="cannot be reached"):
            RestCatalog("c", {"uri": "http://catalog.invalid/there"})


def test_connections_are_kept_and_a_process_that_forked_has_its_own():
    with serving(lambda _: Reply(200, {})) as server:
        client = HttpClient()
        for _ in range(3):
            client.send("GET", server.uri, {})
        (manager,) = client._managers.values()
        (pool,) = (manager.pools[key] for key in manager.pools.keys())  # noqa: SIM118  no mapping
        assert (pool.num_connections, pool.num_requests) == (1, 3)
        child = os.fork()
        if child == 0:  # no assertion here: it must end without pytest
            kept = client._manager(server.uri) is manager
            os._exit(1 if kept or client.send("GET", server.uri, {}).status != 200 else 0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert client.send("GET", server.uri, {}).status == 200
        client.close()
