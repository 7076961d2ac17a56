"""Reading the columns of one stripe: descriptors first, then the buffers of what is wanted.

Spec: docs/formats/amudai.md § 4.3, § 4.5; Amudai book, chapter 6, Stripe Field Descriptor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skerry.amudai.fields.buffers import StoredBuffer
from skerry.amudai.fields.leaves import ColumnTooLongError
from skerry.amudai.fields.nested import read_node
from skerry.amudai.fields.selection import Selection
from skerry.amudai.fields.stored_field import StripeFields
from skerry.amudai.messages import BufferKind, StripeFieldDescriptor
from skerry.amudai.shard.directory import Stripe
from skerry.amudai.shard.references import Reference, UrlRules
from skerry.amudai.shard.schema import DataType, Schema
from skerry.amudai.shard.shard_files import ShardFiles
from skerry.errors import FormatError, UnsupportedError

__all__ = ["StripeReader"]

_WHOLE_SHARE: Final = 0.25
"""From this share of a stripe's rows on, whole buffers are read rather than blocks."""


class StripeReader:
    """One stripe of a shard. Columns may be read from many threads, each column from one.

    Args:
        files: The shard's files.
        rules: Resolves urls.
        schema: The shard's schema.
        stripe: The stripe.
        references: Where the descriptors of its fields are, by schema id; None where there is none.

    Attributes:
        fields: The fields whose descriptors have been read.
        deleted: Which rows are marked as deleted, bool[row_count], once a scan has found that out.
        candidates: Rows that a scan's filter may want, once the scan has found that out.
    """

    def __init__(
        self,
        files: ShardFiles,
        rules: UrlRules,
        schema: Schema,
        stripe: Stripe,
        references: Sequence[tuple[str, int, int] | None],
    ) -> None:
        self.files = files
        self.stripe = stripe
        self.schema = schema
        self.deleted: npt.NDArray[np.bool_] | None = None
        self.candidates: Selection | None = None
        self.fields = StripeFields(files, rules)
        self._references = references

    @property
    def row_count(self) -> int:
        """The stripe's records, deleted ones included."""
        return self.stripe.record_count

    def check_deleted(self) -> None:
        """Hold the rows that are marked as deleted, bool[row_count] in `deleted`, against the stripe's directory.

        Raises:
            FormatError: The directory has another number of them.
        """
        found = 0 if self.deleted is None else int(np.count_nonzero(self.deleted))
        if found != self.stripe.deleted_record_count:
            raise FormatError(
                f"stripe {self.stripe.ordinal} has {found} records that are marked as deleted, expected "
                f"{self.stripe.deleted_record_count}",
                location=self.files.shown,
                rule="docs/formats/amudai.md § 2.3",
            )

    def descriptor_reference(self, node: DataType) -> Reference | None:
        """Where a node's descriptor is; None if the stripe has none."""
        entry = self._references[node.schema_id] if node.schema_id < len(self._references) else None
        return None if entry is None else Reference(self.fields.rules.resolve(entry[0]), entry[1], entry[2])

    def descriptor_references(self, nodes: Iterable[DataType]) -> list[tuple[int, Reference]]:
        """Where the descriptors of nodes are that have not been read yet, with the nodes' numbers."""
        found = []
        for node in nodes:
            if self.fields.knows(node):
                continue
            reference = self.descriptor_reference(node)
            if reference is None:
                self.fields.keep_absence(node.schema_id)
            else:
                found.append((node.schema_id, reference))
        return found

    def load_descriptors(self, nodes: Iterable[DataType]) -> None:
        """Read the descriptors of nodes, all at once."""
        wanted = self.descriptor_references(nodes)
        messages = self.files.read_messages(StripeFieldDescriptor, [reference for _, reference in wanted])
        for (schema_id, reference), message in zip(wanted, messages, strict=True):
            self.fields.keep(schema_id, message, reference.location)

    def first_buffer(self, node: DataType) -> int | None:
        """Where the first buffer of a node begins in its file; None if the node has none."""
        if self.fields.descriptor(node) is None:
            return None
        return min((buffer.reference.start for buffer in self.fields.field(node).buffers.values()), default=None)

    def read_column(self, node: DataType, selection: Selection, target: pa.DataType) -> list[pa.Array]:
        """Read a column.

        Args:
            node: The node of a top-level field.
            selection: The wanted rows.
            target: The wanted type, one that the column can be stored as.

        Returns:
            Arrays of `target` that follow each other; more than one only if one cannot hold all values.

        Raises:
            FormatError: Descriptors or buffers are damaged.
            UnsupportedError: Values are stored in a way that cannot be read.
            SchemaError: A value does not fit `target`.
        """
        nodes = list(node.nodes())
        self.load_descriptors(nodes)
        if selection.count >= _WHOLE_SHARE * self.row_count:
            self._fetch(nodes)
        chunks = self._read_chunks(node, selection, target)
        if selection.is_all_of(self.row_count):
            for each in nodes:
                for buffer in self._buffers(each):
                    buffer.hold(None)
        return chunks

    def _read_chunks(self, node: DataType, selection: Selection, target: pa.DataType) -> list[pa.Array]:
        try:
            return [read_node(self.fields, node, selection, target, self.row_count)]
        except ColumnTooLongError:
            if selection.count <= 1:
                raise UnsupportedError(
                    f"one value of field {node.name!r} is too long for {target}", location=self.files.shown
                ) from None
            halves = selection.halves()
            return [chunk for half in halves for chunk in self._read_chunks(node, half, target)]

    def _buffers(self, node: DataType) -> list[StoredBuffer]:
        """The buffers that hold a node's values; none if a constant does."""
        if self.fields.descriptor(node) is None:
            return []
        field = self.fields.field(node)
        if field.is_null or (field.constant is not None and not node.basic_type.is_composite):
            return []
        return [buffer for kind, buffer in field.buffers.items() if kind != BufferKind.RANGE_INDEX]

    def _fetch(self, nodes: Iterable[DataType]) -> None:
        """Read all buffers of nodes at once, whole."""
        buffers = [buffer for node in nodes for buffer in self._buffers(node) if not buffer.is_held]
        for buffer, whole in zip(buffers, self.files.read([buffer.reference for buffer in buffers]), strict=True):
            buffer.hold(whole)
