"""Options of the data source `skerry`."""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final

import skerry
from skerry.catalog import Table
from skerry.errors import SchemaError
from skerry.table.connector.connector import TableConnector
from skerry.table.connector.publication import Publication, WriteMode
from skerry.table.connector.stream_choice import EARLIEST, Limits
from skerry.table.history import MAIN
from skerry.table.rows.schema import nearest
from skerry.table.stream_batch import StreamBatch

__all__ = ["SourceOptions", "Use"]

_COLUMN: Final = re.compile(
    r"""(\s*(?:try_)?variant_get\s*\((?:'[^']*'|"[^"]*"|[^'")])*\)[^,"]*(?:"[^"]*")*\s*|[^,]*),""", re.IGNORECASE
)
_CATALOG_PREFIX = "catalog."
_SUMMARY_PREFIX = "snapshot-property."


class Use(enum.Enum):
    """The uses of a data source."""

    READ = "reads"
    WRITE = "batch writes"
    STREAM_READ = "streaming reads"
    STREAM_WRITE = "streaming writes"


_EVERY = frozenset(Use)
_READS = frozenset((Use.READ, Use.STREAM_READ))
_WRITES = frozenset((Use.WRITE, Use.STREAM_WRITE))
_READ, _WRITE, _STREAM_READ = frozenset((Use.READ,)), frozenset((Use.WRITE,)), frozenset((Use.STREAM_READ,))
_OPTIONS = {
    "catalog": _EVERY,
    "path": _EVERY,
    "table": _EVERY,
    "ref": _EVERY,
    "columns": _READS,
    "where": _READS,
    "snapshot": _READ,
    "push-filters": _READ,
    "changes": _STREAM_READ,
    "on": _WRITES | _STREAM_READ,
    "start": _STREAM_READ,
    "skip-changes": _STREAM_READ,
    "consumer": _STREAM_READ,
    "max-files-per-batch": _STREAM_READ,
    "max-snapshots-per-batch": _STREAM_READ,
    "operation": _WRITES,
    "blind": _WRITES,
    "stream": _WRITES,
    "batch": _WRITE,
    "query": _WRITE,
    "take-over": _WRITES,
    "checkpointlocation": _EVERY,  # Spark passes on its own
    "queryname": _EVERY,
}


class SourceOptions:
    """The options of one read or write; names are case-insensitive. Picklable.

    Args:
        options: As Spark gives them.

    Raises:
        SchemaError: An option is unknown.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        for name in self._options:
            if name not in _OPTIONS and not name.startswith((_CATALOG_PREFIX, _SUMMARY_PREFIX)):
                raise SchemaError(f"the data source skerry has no option {name!r}{nearest(name, _OPTIONS)}")
        self._catalog_properties = {
            name[len(_CATALOG_PREFIX) :]: value
            for name, value in options.items()
            if name.lower().startswith(_CATALOG_PREFIX)
        }

    def check(self, use: Use) -> None:
        """Refuse options that would be ignored.

        Raises:
            SchemaError: An option is for another use.
        """
        for name in self._options:
            uses = _OPTIONS.get(name, _EVERY)
            if use not in uses:
                wanted = " and ".join(sorted(found.value for found in uses))
                raise SchemaError(f"option {name} is only for {wanted}")

    def load(self) -> Table:
        """Load the table.

        Raises:
            NotFoundError: The table does not exist.
            SchemaError: No catalog or no table is named.
        """
        table = self._options.get("table") or self._options.get("path")
        if not table or not self._options.get("catalog"):
            raise SchemaError(
                'the data source skerry needs .option("catalog", …) and a table\'s name: .save("ns.table")'
            )
        return skerry.connect(self._options["catalog"], create=False, **self._catalog_properties).load_table(table)

    def connector(self) -> TableConnector:
        """The table's connector, for frames and streams.

        Raises:
            SkerryError: As `load`.
        """
        return self.load().connector()

    # ---- reading ----

    @property
    def columns(self) -> list[str] | None:
        """The columns to read, and values inside of variants; None for all."""
        text = self._options.get("columns")
        return [name.strip() for name in _COLUMN.findall(f"{text},")] if text else None

    @property
    def where(self) -> str | None:
        """Which rows to read."""
        return self._options.get("where")

    @property
    def ref(self) -> str | None:
        """A branch or tag."""
        return self._options.get("ref")

    @property
    def snapshot(self) -> int | None:
        """The snapshot to read.

        Raises:
            SchemaError: It is not a number.
        """
        text = self._options.get("snapshot")
        if text is not None and not text.lstrip("-").isdecimal():
            raise SchemaError(f"option snapshot must be a snapshot id, found {text!r}")
        return None if text is None else int(text)

    @property
    def pushes_filters(self) -> bool:
        """Whether the conditions of a query are used for planning and reading."""
        return self._flag("push-filters")

    @property
    def tells_changes(self) -> bool:
        """Whether a stream delivers deleted and updated rows."""
        return self._flag("changes")

    @property
    def skips_changes(self) -> bool:
        """Whether a stream of new rows skips other commits."""
        return self._flag("skip-changes")

    @property
    def start(self) -> str:
        """Where a stream starts."""
        return self._options.get("start", EARLIEST)

    @property
    def limits(self) -> Limits:
        """The limits on a batch of a stream.

        Raises:
            SchemaError: A limit is not a whole number above 0.
        """
        return Limits(self._count("max-files-per-batch"), self._count("max-snapshots-per-batch"))

    @property
    def consumer(self) -> str | None:
        """The name under which the table records how far a stream has read."""
        return self._options.get("consumer")

    @property
    def checkpoint(self) -> str | None:
        """Where Spark stores how far a stream has read, if the reader knows it."""
        return self._options.get("checkpointlocation")

    @property
    def on(self) -> tuple[str, ...] | None:
        """Key columns."""
        names = self._names("on")
        return None if names is None else tuple(names)

    # ---- writing ----

    def publication(self, *, overwrite: bool) -> Publication:
        """How rows are published.

        Args:
            overwrite: Whether the frame's mode is `overwrite`.

        Raises:
            SchemaError: The options contradict each other or the mode.
        """
        default = WriteMode.OVERWRITE if overwrite else WriteMode.APPEND
        mode = WriteMode.parse(self._options.get("operation", default.value))
        overwrites = mode in (WriteMode.OVERWRITE, WriteMode.OVERWRITE_PARTITIONS)
        if overwrites != overwrite:
            wanted = "overwrite" if overwrites else "append"
            raise SchemaError(
                f'option operation {mode.value} goes with mode("{wanted}"); with streams, only append and upsert'
            )
        properties = {
            name[len(_SUMMARY_PREFIX) :]: value
            for name, value in self._options.items()
            if name.startswith(_SUMMARY_PREFIX)
        }
        return Publication(mode, self.ref or MAIN, self.on or (), self._flag("blind"), properties)

    @property
    def stream(self) -> str:
        """The name of a stream that is written, the same after a restart.

        Raises:
            SchemaError: No option names it.
        """
        name = self._options.get("stream") or self._options.get("checkpointlocation")
        if not name:
            raise SchemaError(
                'a stream needs .option("checkpointLocation", …), or .option("stream", name), so that a batch is not '
                "committed again after a restart"
            )
        return name

    @property
    def takes_over(self) -> bool:
        """Whether a stream continues under a name that another query has used."""
        return self._flag("take-over")

    @property
    def batch(self) -> StreamBatch | None:
        """The batch of a stream that a frame is.

        Raises:
            SchemaError: The options that name it are incomplete or invalid.
        """
        said = {name: self._options.get(name) for name in ("stream", "batch", "query")}
        stream, number = said["stream"], said["batch"]
        if not stream or number is None:
            alone = next((name for name, value in said.items() if value is not None), None)
            if alone is None and not self.takes_over:
                return None
            raise SchemaError(
                f"option {alone or 'take-over'} is for a batch of a stream, which is committed once: a frame needs "
                'both .option("stream", name) and .option("batch", number), as foreachBatch numbers it'
            )
        if not number.isdecimal():
            raise SchemaError(f"option batch must be the number of a batch, found {number!r}")
        return StreamBatch(stream, int(number), said["query"], self.takes_over)

    # ---- texts ----

    def _names(self, option: str) -> list[str] | None:
        text = self._options.get(option)
        return [name.strip() for name in text.split(",")] if text else None

    def _flag(self, option: str) -> bool:
        text = self._options.get(option, "false").strip().lower()
        if text not in ("true", "false"):
            raise SchemaError(f"option {option} must be true or false, found {text!r}")
        return text == "true"

    def _count(self, option: str) -> int | None:
        text = self._options.get(option)
        if text is None:
            return None
        if not text.isdecimal() or int(text) == 0:
            raise SchemaError(f"option {option} must be a whole number above 0, found {text!r}")
        return int(text)
