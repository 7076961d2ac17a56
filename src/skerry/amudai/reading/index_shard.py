"""The shards that an index is stored in: opened once, read by record."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stripe_reader import StripeReader
from skerry.amudai.reading.scanning import ScanPlan, ThisThread
from skerry.amudai.reading.shard_metadata import ShardMetadata
from skerry.amudai.reading.taking import read_positions, split_by_stripe
from skerry.amudai.shard.references import Reference
from skerry.amudai.shard.schema import DataType
from skerry.amudai.shard.shard_files import MAGIC_BYTES
from skerry.amudai.values.types import schema_from_arrow
from skerry.errors import FormatError
from skerry.storage import Storage

__all__ = ["IndexShard"]


class IndexShard:
    """A shard of an index, open for reading. Safe to use from many threads, which take turns.

    Args:
        storage: Where to read from.
        reference: Where its metadata are: the directory of the format ends where the reference does.
        schema: The columns that it has to have.
        allowed_locations: Folders, apart from its own, into which its absolute urls may lead.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is not a sound shard, or has other columns.
        UnsupportedError: Its version is unknown.
    """

    def __init__(
        self, storage: Storage, reference: Reference, schema: pa.Schema, *, allowed_locations: Iterable[str] = ()
    ) -> None:
        self.metadata = ShardMetadata(storage, reference.location, allowed_locations=allowed_locations)
        found, wanted = self.metadata.schema.fields, schema_from_arrow(schema).fields
        if [_shape(field.data_type) for field in found] != [_shape(field.data_type) for field in wanted]:
            raise FormatError(
                f"an index has the columns {', '.join(field.name for field in found)}, expected "
                f"{', '.join(field.name for field in wanted)} in the types of the format",
                location=self.metadata.shown,
                rule="docs/formats/amudai-indexes.md § 2.4",
            )
        size = self.metadata.files.root_size
        if size != reference.end + MAGIC_BYTES:
            raise FormatError(
                f"a file of an index has {size} bytes, expected {reference.end + MAGIC_BYTES}",
                location=self.metadata.shown,
                rule="docs/formats/amudai-indexes.md § 2.1",
            )
        self._plan = ScanPlan(self.metadata.schema, schema, None, keeps_deleted=True)
        self._readers: dict[int, StripeReader] = {}
        self._lock = threading.Lock()

    @property
    def shown(self) -> str:
        """Its location for messages."""
        return self.metadata.shown

    @property
    def location(self) -> str:
        """Where its metadata are."""
        return self.metadata.location

    @property
    def record_count(self) -> int:
        """How many records there are."""
        return int(self.metadata.directory.total_record_count)

    def take(self, records: npt.NDArray[np.int64]) -> pa.Table:
        """Read records.

        Args:
            records: int64[n], ascending, distinct, and below `record_count`.
        """
        parts = split_by_stripe(self.metadata, records)
        with self._lock:
            self._open([ordinal for ordinal, _ in parts])
            return read_positions([(self._readers[ordinal], rows) for ordinal, rows in parts], self._plan)

    def column(self, start: int, stop: int) -> pa.Array:
        """The only column of the records from `start` to `stop` - 1, which there are."""
        with self._lock:
            if len(self.metadata.stripes) == 1 and stop > start:
                self._open([0])
                table = self._plan.start(self._readers[0], Selection.range(start, stop), ThisThread())()
            else:
                parts = split_by_stripe(self.metadata, np.arange(start, stop))
                self._open([ordinal for ordinal, _ in parts])
                table = read_positions([(self._readers[ordinal], rows) for ordinal, rows in parts], self._plan)
        column = table.column(0)
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

    @contextmanager
    def only_stripe(self) -> Iterator[StripeReader | None]:
        """The stripe that holds all records, with the descriptors of all columns, for one thread; None for several."""
        with self._lock:
            if len(self.metadata.stripes) != 1:
                yield None
            else:
                self._open([0])
                yield self._readers[0]

    def _open(self, ordinals: Iterable[int]) -> None:
        missing = [ordinal for ordinal in ordinals if ordinal not in self._readers]
        if missing:
            opened = self.metadata.stripe_readers(missing)
            self.metadata.load_descriptors(opened, self._plan.nodes())
            self._readers.update(zip(missing, opened, strict=True))


def _shape(node: DataType) -> tuple[object, ...]:
    """What makes a column readable as another: names, types and those of what is below it."""
    return (node.name, node.basic_type, node.signed, *map(_shape, node.children))
