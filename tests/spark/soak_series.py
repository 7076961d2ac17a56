"""What a soak measures after every round: memory, files, metadata and latency, as a table, JSON lines and a picture."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skerry.catalog import Table

__all__ = ["Series"]

PAGE_BYTES = 4096
WIDTH, HEIGHT, LEFT = 640, 64, 200


class Series:
    """Measurements in the order of time.

    Args:
        path: The file of JSON lines; its picture and table stand beside it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.begun = time.monotonic()
        self.points: list[dict[str, float]] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")

    def add(
        self, groups: Mapping[str, int], tables: Sequence[Table], latency_s: float, counts: Mapping[str, int]
    ) -> None:
        """Measure once.

        Args:
            groups: Process groups by name.
            tables: The tables.
            latency_s: How long the tables took to have the last change.
            counts: What else there is to tell.
        """
        point: dict[str, float] = {"seconds": round(time.monotonic() - self.begun, 1), "latency s": round(latency_s, 2)}
        for name, group in groups.items():
            for program, size in memory(group).items():
                point[f"{name} {program} MB"] = round(size / 1e6)
        for table in tables:
            files = [file.stat().st_size for file in folder_of(table).rglob("*") if file.is_file()]
            point |= {
                f"{table.format} files": len(files),
                f"{table.format} MB": round(sum(files) / 1e6, 2),
                f"{table.format} data files": len(table.refresh().files()),
                f"{table.format} snapshots": len(table.snapshots()),
                f"{table.format} metadata KB": round(metadata_bytes(table) / 1e3, 1),
            }
        self.points.append({**point, **counts})
        with self.path.open("a") as file:
            file.write(json.dumps(self.points[-1]) + "\n")
        self.path.with_suffix(".svg").write_text(self.picture())
        self.path.with_suffix(".md").write_text(self.table())

    def names(self) -> list[str]:
        """What was measured."""
        return [name for name in dict.fromkeys(name for point in self.points for name in point) if name != "seconds"]

    def values(self, name: str) -> list[tuple[float, float]]:
        """Times and values."""
        return [(point["seconds"], point[name]) for point in self.points if name in point]

    def table(self) -> str:
        """The medians of the four quarters of the time, and how the last compares to the second."""
        lines = ["| | 1st quarter | 2nd | 3rd | 4th | 4th / 2nd |", "|---|---|---|---|---|---|"]
        for name in self.names():
            quarters = [self._median(name, quarter) for quarter in range(4)]
            growth = f"{quarters[3] / quarters[1]:.2f}" if quarters[1] else "–"
            lines.append(f"| {name} | {' | '.join(f'{one:,.10g}' for one in quarters)} | {growth} |")
        return "\n".join(lines) + "\n"

    def _median(self, name: str, quarter: int) -> float:
        end = self.points[-1]["seconds"]
        found = [value for at, value in self.values(name) if end * quarter / 4 <= at <= end * (quarter + 1) / 4]
        return statistics.median(found) if found else 0.0

    def picture(self) -> str:
        """One line under the other, each from 0 to its own maximum."""
        end = max(self.points[-1]["seconds"], 1)
        parts = []
        for row, name in enumerate(self.names()):
            values, top = self.values(name), (row + 1) * HEIGHT - 8
            most = max(value for _, value in values) or 1
            line = " ".join(
                f"{LEFT + at / end * (WIDTH - LEFT - 60):.1f},{top - value / most * (HEIGHT - 16):.1f}"
                for at, value in values
            )
            parts.append(
                f'<text x="4" y="{top - HEIGHT / 2 + 12}">{name}</text>'
                f'<polyline points="{line}" fill="none" stroke="#1f6f8b"/>'
                f'<text x="{WIDTH - 56}" y="{top - HEIGHT + 20}">{most:,.10g}</text>'
            )
        size = f'width="{WIDTH}" height="{len(parts) * HEIGHT}"'
        style = 'font-family="sans-serif" font-size="11"'
        return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>\n'


def memory(group: int) -> dict[str, int]:
    """Resident bytes of a process group, those of Java apart."""
    found: dict[str, int] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
            if int(rest.split()[2]) != group:
                continue
            size = int((folder / "statm").read_text().split()[1]) * PAGE_BYTES
        except (OSError, ValueError, IndexError):
            continue  # it has ended meanwhile
        program = "Java" if name == "java" else "Python"
        found[program] = found.get(program, 0) + size
    return found


def folder_of(table: Table) -> Path:
    """Where a table lies."""
    return Path(table.location.removeprefix("file://"))


def metadata_bytes(table: Table) -> int:
    """The size of what a state is read from: `metadata.json`, or the manifest lists of a Paimon table's snapshot."""
    if table.format == "iceberg":
        return Path(table.metadata_location.removeprefix("file://")).stat().st_size
    state: Any = table.handle.state
    snapshot, manifests = state.snapshot, folder_of(table) / "manifest"
    names = [snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest]
    return sum((manifests / name).stat().st_size for name in names if name and (manifests / name).exists())
