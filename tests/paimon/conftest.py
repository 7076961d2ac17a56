"""Paimon's peers, one of each for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from paimon_peers import JavaPaimon, PyPaimon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PyPaimon]:
    peer = PyPaimon(tmp_path_factory.mktemp("pypaimon"))
    yield peer
    peer.close()


@pytest.fixture(scope="session")
def java_paimon(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> JavaPaimon:
    return JavaPaimon(spark, tmp_path_factory.mktemp("java-paimon"))
