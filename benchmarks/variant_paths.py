"""Conditions on paths of shredded variants, beside the same values as plain columns and beside Spark's connector.

A million rows of 10,000 different documents with six fields. Counted are the rows for which a number, or a text, in the
document meets a condition that few do, and the ids of those rows are read; all take turns in one session, and the
median of the rounds counts. Spark reads the same table, with whatever it skips; its JVM is warm.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import skerry
import skerry.spark
from figures import figure
from skerry.spark.runtime.session import ICEBERG_EXTENSIONS, iceberg_packages, iceberg_settings
from skerry.variant import VARIANT, from_json
from tpch_data import CACHE

DOCUMENTS, ROWS = 10_000, 1_000_000
KINDS = ("view", "click", "buy", "leave")
CONDITIONS = {
    "a number": ("variant_get(event, '$.ms', 'int') > 990", "ms > 990", "try_variant_get(event, '$.ms', 'int') > 990"),
    "a text": (
        "variant_get(event, '$.page', 'string') = '/item/77'",
        "page = '/item/77'",
        "try_variant_get(event, '$.page', 'string') = '/item/77'",
    ),
}
TARGET = 1.5


def rows() -> pa.Table:
    """Documents, and two of their fields as columns."""
    draw = random.Random(7)
    found = [
        {
            "ms": draw.randrange(1000),
            "kind": draw.choice(KINDS),
            "page": f"/item/{draw.randrange(500)}",
            "user": {"id": draw.randrange(10**9), "beta": draw.random() < 0.1},
            "price": draw.randrange(10_000) / 4,
            "tags": [f"t{draw.randrange(20)}" for _ in range(draw.randrange(4))],
        }
        for _ in range(DOCUMENTS)
    ]
    chosen = pa.array(np.random.default_rng(7).integers(0, DOCUMENTS, ROWS))
    columns = {
        "id": pa.array(range(ROWS)),
        "event": from_json([json.dumps(document) for document in found]).take(chosen),
        "ms": pa.array([document["ms"] for document in found]).take(chosen),
        "page": pa.array([document["page"] for document in found]).take(chosen),
    }
    fields = [
        pa.field("event", VARIANT) if name == "event" else (name, column.type) for name, column in columns.items()
    ]
    return pa.table(list(columns.values()), schema=pa.schema(fields))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    work = CACHE / "variant-paths"
    shutil.rmtree(work, ignore_errors=True)
    data = rows()
    table = skerry.connect(work).create_table(
        "web.events", data.schema, format_version=3, properties={"write.parquet.shred-variants": "true"}
    )
    table.append(data)
    spark = skerry.spark.session(
        master="local[2]", packages=iceberg_packages("4.1"), config={"spark.sql.extensions": ICEBERG_EXTENSIONS}
    )
    for key, value in iceberg_settings(str(work)).items():
        spark.conf.set(key, value)
    for name, (path, column, in_spark) in CONDITIONS.items():
        routes: dict[str, Callable[[], Any]] = {
            "paths": lambda path=path: table.scan(["id"], path).to_arrow()["id"],
            "plain columns": lambda column=column: table.scan(["id"], column).to_arrow()["id"],
            "Spark's connector": lambda text=in_spark: spark.sql(
                f"SELECT id FROM skerry.web.events WHERE {text}"
            ).toArrow()["id"],
        }
        found = [sorted(run().to_pylist()) for run in routes.values()]
        assert found[0] == found[1] == found[2]
        assert 0 < len(found[0]) < ROWS / 50
        times: dict[str, list[float]] = {route: [] for route in routes}
        for _ in range(rounds):
            for route, run in routes.items():
                begin = time.perf_counter()
                run()
                times[route].append(time.perf_counter() - begin)
        own, plain, theirs = (statistics.median(times[route]) for route in routes)
        figure(name, times["paths"], times["plain columns"])
        print(
            f"{name}: paths {own:.3f} s, plain columns {plain:.3f} s, ratio {own / plain:.2f} (at most {TARGET}); "
            f"Spark's connector {theirs:.2f} s"
        )
    spark.stop()


if __name__ == "__main__":
    main()
