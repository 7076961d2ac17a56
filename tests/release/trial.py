"""What a user does first, with the package and what it requires: both formats, a shard, the terminal, the page."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.request
from importlib import metadata

import pyarrow as pa

import skerry
import skerry.amudai

ROWS = pa.table({"id": [1, 2, 3], "name": ["a", "b", "b"]})

assert metadata.version("skerry") == skerry.__version__
catalog = skerry.connect("warehouse/")
for name, options in {"d.iceberg": {}, "d.paimon": {"format": "paimon"}}.items():
    table = catalog.create_table(name, ROWS.schema, **options)
    table.append(ROWS)
    assert table.statistics()["name"].ndv == 2
    assert table.scan(where="name = 'b'").count() == 2
skerry.amudai.write_table(ROWS, "a.amudai.shard")
assert skerry.amudai.read_table("a.amudai.shard").equals(ROWS)
assert "numba" not in sys.modules, "the kernels of the package were not used"

shown = subprocess.run(["skerry", "stats", "d.iceberg", "--json"], check=True, capture_output=True, text=True).stdout
assert {column["column"] for column in json.loads(shown)} == {"id", "name"}

with subprocess.Popen(["skerry", "serve", "warehouse/", "--no-open"], stdout=subprocess.PIPE, text=True) as server:
    stop = threading.Timer(60, server.kill)
    stop.start()
    assert server.stdout is not None
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())  # the token becomes a cookie
    with browser.open(server.stdout.readline().strip()) as page:
        assert b"d.paimon" in page.read()
    stop.cancel()
    server.terminate()

numba = "loaded" if "numba" in sys.modules else "not needed"
print(f"skerry {skerry.__version__}, Python {sys.version.split()[0]}, numba {numba}")
