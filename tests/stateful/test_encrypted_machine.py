"""The random histories of Iceberg tables, on encrypted ones in a Hive metastore of the tests' own."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from landing_machine import LandingMachine
from test_iceberg_machine import ICEBERG, Choices

import skerry
from metastore_server import Metastore, serving
from skerry.encryption import KeyManagement, decrypt, encrypt

_KEY = bytes(16)
_NEVER = {"analyze", "add files", "index", "change layout"}
"""What would not be encrypted; ORC files are among the layouts."""


class Vault(KeyManagement):
    """One key for all tables."""

    def wrap_key(self, key: bytes, key_id: str) -> bytes:
        return encrypt(_KEY, key)

    def unwrap_key(self, wrapped: bytes, key_id: str) -> bytes:
        return decrypt(_KEY, wrapped)


def _create(catalog: skerry.catalog.Catalog, schema: pa.Schema, choices: Choices) -> skerry.catalog.Table:
    return catalog.create_table(
        "d.t",
        schema,
        partition_by=list(choices.partition_by),
        sort_by=list(choices.sort_by),
        format_version=3,
        properties={
            "encryption.key-id": "key",
            "write.delete.mode": choices.mode,
            "write.merge.mode": choices.mode,
            "write.format.default": choices.file_format,
            "commit.manifest.min-count-to-merge": "3",
        },
    )


class EncryptedMachine(LandingMachine):
    format = dataclasses.replace(
        ICEBERG,
        create=_create,
        choices=st.builds(
            Choices,
            format_version=st.just(3),
            partition_by=st.sampled_from([(), ("grp",), ("bucket(4, id)",), ("truncate(1, word)", "grp")]),
            sort_by=st.sampled_from([(), ("id",), ("word desc", "id")]),
            mode=st.sampled_from(["copy-on-write", "merge-on-read"]),
            file_format=st.sampled_from(["parquet", "avro"]),
            max_groups=st.just("128"),
        ),
        can=ICEBERG.can - _NEVER,
        read_with_peer=lambda _: None,
    )
    metastore = Metastore()
    copy = move = None  # refused

    def connect(self) -> skerry.catalog.Catalog:
        self.metastore.take(Metastore())
        return skerry.connect(self.metastore.uri, warehouse=self.folder, key_management=Vault())


@pytest.fixture(autouse=True, scope="module")
def metastore() -> Iterator[None]:
    with serving(EncryptedMachine.metastore):
        yield


TestEncryptedTable = pytest.mark.torture(pytest.mark.slow(EncryptedMachine.TestCase))
TestEncryptedTable.settings = settings(
    max_examples=int(os.environ.get("SKERRY_HISTORIES") or 20),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
