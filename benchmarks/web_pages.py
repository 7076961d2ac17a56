"""The pages of a table of 1,000,000 files: seconds until each is there, asked for first and again.

The table is that of `planning.py`, made once in `.cache/`; its data files do not exist, and it has no sketches, so that
statistics are those of manifests. The first request of a process reads the manifests; what it has read is remembered.
`…/rest` is what follows when a page is there.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

sys.path += [str(Path(__file__).parents[1] / "tests" / "web")]

from pages import Client

from figures import figure
from planning import make_table

NARROW = {"where": "n0 >= 700 AND n0 < 703"}
DAY = {"where": "ts >= TIMESTAMP '2024-03-05 00:00:00' AND ts < TIMESTAMP '2024-03-06 00:00:00'"}
PAGES: tuple[tuple[str, dict[str, object]], ...] = (
    ("/", {}),
    ("/table", {}),
    ("/files", {}),
    ("/files/rest", {}),
    ("/files", {"sort": "path", "page": 5000}),
    ("/files", {"partition": "ts_day=2024-01-01/id_bucket=0"}),
    ("/files", {"q": "ff00"}),
    ("/history", {}),
    ("/streams", {}),
    ("/plan", DAY),
    ("/plan/rest", DAY),
    ("/plan", NARROW),
    ("/plan/rest", NARROW),
    ("/plan/rest", {"where": "n0 >= 0"}),
    ("/statistics", {}),
    ("/statistics/rest", {}),
    ("/statistics", {"column": "n0"}),
    ("/health", {}),
)


def main() -> None:
    parser = argparse.ArgumentParser(description="pages of a large table")
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    from skerry.web import open_source
    from skerry.web.app import application

    client = Client(application(open_source(str(make_table(chosen.files)), {})))
    print(f"{'page':<60}{'first':>8}{'again':>8}{'kB':>8}")
    for path, parameters in PAGES:
        taken = []
        for _ in range(1 + chosen.rounds):
            begin = time.perf_counter()
            answer = client.get(path, **({"t": "ns.t"} if path != "/" else {}), **parameters)
            taken.append(time.perf_counter() - begin)
            assert answer.status == 200, answer.text
        figure(f"{path} {parameters}, first", taken[0])
        figure(f"{path} {parameters}, again", taken[1:])
        shown = path + "".join(f" {name}={value}" for name, value in parameters.items())
        print(f"{shown[:58]:<60}{taken[0]:>8.2f}{min(taken[1:]):>8.2f}{len(answer.body) / 1000:>8.0f}", flush=True)
    print(f"memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
