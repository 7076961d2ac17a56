"""Runs the benchmarks one after another, keeps their figures, and says what got slower.

Every script runs as its own process, with few rounds; `figures.json` beside this file holds the last table's figures.
Where a peer was measured in the same run, the ratio to it is compared, which a busy machine hardly changes; else the
figure itself. Slower is what lost more than a fifth, and more than the quartiles of both runs are apart.

    python benchmarks/all.py --only planning upsert     # some of them
    python benchmarks/all.py --without spark --keep     # all that start no JVM; these are the new table
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from figures import FIGURES_FILE, Figure

FOLDER = Path(__file__).parent
KEPT = FOLDER / "figures.json"
TOLERANCE = 1.2
TIMEOUT_SECONDS = 3600
QUICK: dict[str, list[str]] = {
    "change_stream": ["--seconds", "30"],
    "cold_start": ["--rounds", "3", "--fresh-rounds", "1"],
    "flat_commits": ["--columns", "3", "100", "--commits", "120"],
    "paimon_changelog": ["--rows", "2000000"],
    "paimon_compaction": ["--keys", "1000000", "--size", "50000"],
    "scale": ["--files", "1000000"],
    "spark_merge": ["--rounds", "3", "--rows", "1500000"],
    "spark_source_read": ["--rounds", "3", "--rows", "1500000"],
    "stream_restart": ["--rounds", "3"],
}
"""Arguments of scripts that take long with their defaults. Figures kept with others cannot be compared."""

Figures = dict[str, dict[str, Figure]]


def scripts() -> list[str]:
    """The benchmarks: what tells figures."""
    return sorted(path.stem for path in FOLDER.glob("*.py") if "\nfrom figures import figure\n" in path.read_text())


def starts_java(script: str) -> bool:
    return "skerry.spark" in (FOLDER / f"{script}.py").read_text()


def run(script: str) -> dict[str, Figure] | None:
    """The figures of a script; None if it fails."""
    with tempfile.NamedTemporaryFile("r") as collected:
        command = [sys.executable, str(FOLDER / f"{script}.py"), *QUICK.get(script, [])]
        environment = {**os.environ, FIGURES_FILE: collected.name}
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
            )
        except subprocess.TimeoutExpired:
            print(f"{script}: not done after {TIMEOUT_SECONDS} s")
            return None
        figures = [Figure(**json.loads(line)) for line in collected]
    if done.returncode and not figures:
        print(f"{script}: failed\n{done.stderr[-2000:]}")
        return None
    return {figure.name: figure for figure in figures}


def cost(figure: Figure) -> float:
    """What is compared: less is better."""
    value = figure.value if figure.peer is None else figure.value / figure.peer
    return 1 / value if figure.more_is_better else value


def times_slower(old: Figure, new: Figure) -> float | None:
    """How many times more a figure costs, if that is more than noise.

    Args:
        old: The figure of the last table.
        new: The same now.
    """
    if (old.peer is None) != (new.peer is None) or min(cost(old), cost(new)) <= 0:
        return None
    ratio = cost(new) / cost(old)
    noise = sum(found.noise + found.peer_noise for found in (old, new))
    return ratio if ratio > max(TOLERANCE, 1 + noise) else None


def shown(figure: Figure) -> str:
    peer = "" if figure.peer is None else f", peer {figure.peer:.4g} (ratio {figure.value / figure.peer:.2f})"
    return f"{figure.value:.4g} {figure.unit}{peer}"


def read_kept() -> dict[str, Any]:
    return dict(json.loads(KEPT.read_text())) if KEPT.exists() else {"figures": {}}


def keep(found: Figures) -> None:
    """Write the new table; figures of scripts that did not run stay."""
    table = read_kept()
    for script, figures in found.items():
        rows = {
            name: {key: value for key, value in vars(figure).items() if key != "name"}
            for name, figure in sorted(figures.items())
        }
        date = datetime.now(UTC).date().isoformat()
        table["figures"][script] = {"date": date, "load": round(os.getloadavg()[1], 1), "figures": rows}
    KEPT.write_text(json.dumps(table, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def compare(script: str, found: dict[str, Figure]) -> list[str]:
    """What got slower since the last table."""
    kept = read_kept()["figures"].get(script, {"figures": {}})["figures"]
    lines = []
    for name, new in found.items():
        if name not in kept:
            continue
        old = Figure(name, **kept[name])
        slower = times_slower(old, new)
        if slower is not None:
            lines.append(f"{script}: {name}: {slower:.2f} times: {shown(old)} before, {shown(new)} now")
    lines += [f"{script}: {name}: not measured any more" for name in kept.keys() - found.keys()]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=scripts(), metavar="SCRIPT", help="names without .py")
    parser.add_argument("--without", choices=("spark",), help="leave out what starts a JVM")
    parser.add_argument("--keep", action="store_true", help="these figures are the last table from now on")
    chosen = parser.parse_args()
    found: Figures = {}
    lines: list[str] = []
    for script in chosen.only or scripts():
        if chosen.without == "spark" and starts_java(script):
            continue
        begin = time.perf_counter()
        figures = run(script)
        if figures is None:
            lines.append(f"{script}: failed")
            continue
        print(f"{script}: {len(figures)} figures in {time.perf_counter() - begin:.0f} s", flush=True)
        for name, figure in figures.items():
            print(f"  {name}: {shown(figure)}", flush=True)
        found[script] = figures
        lines += compare(script, figures)
    print("\nslower than the last table:" if lines else "\nnothing is slower than the last table")
    print("\n".join(lines))
    if chosen.keep:
        keep(found)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
