"""A small warehouse of both formats, looked at by all tests."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pages import Client

import skerry
from skerry.web import open_source
from skerry.web.app import application

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web") / "warehouse"
    catalog = skerry.connect(folder)
    rows = pa.table(
        {"id": pa.array(range(1000), pa.int64()), "day": [i % 3 for i in range(1000)], HOSTILE: ["<b>"] * 1000}
    )
    table = catalog.create_table("shop.orders", rows.schema, partition_by=["day"])
    table.append(rows)
    table.append(rows.slice(0, 10))
    table.delete("id = 5")
    keyed = catalog.create_table(
        "shop.stock", rows.schema, format="paimon", primary_key=["id"], properties={"comment": HOSTILE}
    )
    keyed.append(rows)
    keyed.append(rows.slice(0, 5))
    amudai = catalog.create_table("shop.shards", rows.schema, file_format="amudai")
    amudai.append(rows)
    catalog.create_table("shop.empty", rows.schema)
    return folder


@pytest.fixture(scope="session")
def source(warehouse):
    return open_source(str(warehouse), {})


@pytest.fixture(scope="session")
def client(source):
    return Client(application(source))
