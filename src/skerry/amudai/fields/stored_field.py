"""What a stripe stores of one node of the schema: its descriptor, and the buffers of the encoding that is read.

Spec: docs/formats/amudai.md § 4.5, § 9.3; Amudai book, chapter 6, Stripe Field Descriptor, Data Encoding.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from skerry.amudai.fields.buffers import StoredBuffer
from skerry.amudai.messages import (
    AnyValue,
    BufferKind,
    DataEncoding,
    ExternalParquetDataEncoding,
    FieldDescriptor,
    NativeDataEncoding,
    StripeFieldDescriptor,
)
from skerry.amudai.shard.references import UrlRules
from skerry.amudai.shard.schema import BasicType, DataType
from skerry.amudai.shard.shard_files import ShardFiles
from skerry.errors import FormatError, UnsupportedError
from skerry.storage import redact

__all__ = ["StoredField", "StripeFields", "open_field"]

_RULE: Final = "docs/formats/amudai.md § 4.5"
_MAX_POSITIONS: Final = 1 << 40
"""More values of one field in one stripe are taken for damage: nothing but constants could hold them."""
_VALUES_ALONE: Final = (BasicType.STRUCT, BasicType.FIXED_SIZE_LIST)
"""Types that may do without any buffer."""


@dataclass(frozen=True, slots=True)
class StoredField:
    """A node in a stripe.

    Args:
        node: The node of the schema.
        positions: How many values there are, null ones included.
        descriptor: What is known of them.
        constant: The value that all have, if they have one.
        buffers: The buffers of the encoding that is read, by kind.
        parquet: Column chunks of Parquet files instead of buffers.
        problem: Why no encoding can be read; raised when one is needed.
        location: The file that the descriptor is in.
    """

    node: DataType
    positions: int
    descriptor: FieldDescriptor
    constant: AnyValue | None = None
    buffers: dict[int, StoredBuffer] = field(default_factory=dict)
    parquet: ExternalParquetDataEncoding | None = None
    problem: str | None = None
    location: str = ""

    @property
    def is_null(self) -> bool:
        """Whether all values are null, or there are none."""
        if self.positions == 0:
            return True
        if self.descriptor.HasField("null_count") and self.descriptor.null_count == self.positions:
            return True
        return self.constant is not None and self.constant.WhichOneof("kind") in (None, "null_value")

    def buffer(self, kind: int) -> StoredBuffer | None:
        """The buffer of a kind, if there is one.

        Raises:
            UnsupportedError: The field is stored in a way that cannot be read.
        """
        if self.problem is not None:
            raise UnsupportedError(self.problem, location=redact(self.location), rule=_RULE)
        return self.buffers.get(kind)

    def required(self, kind: int) -> StoredBuffer:
        """The buffer of a kind.

        Raises:
            FormatError: There is none.
            UnsupportedError: The field is stored in a way that cannot be read.
        """
        found = self.buffer(kind)
        if found is None:
            raise FormatError(
                f"field {self.node.name!r} (schema id {self.node.schema_id}) has no {BufferKind.Name(kind)} buffer",
                location=redact(self.location),
                rule=_RULE,
            )
        return found


class StripeFields:
    """The fields of one stripe whose descriptors have been read.

    Args:
        files: The shard's files.
        rules: Resolves urls.
    """

    def __init__(self, files: ShardFiles, rules: UrlRules) -> None:
        self.files = files
        self.rules = rules
        self._messages: dict[int, tuple[StripeFieldDescriptor, str] | None] = {}
        self._fields: dict[int, StoredField] = {}

    def knows(self, node: DataType) -> bool:
        """Whether a node's descriptor has been read, or the stripe has none."""
        return node.schema_id in self._messages

    def keep(self, schema_id: int, message: StripeFieldDescriptor, location: str) -> None:
        """Take a descriptor that has been read from a file."""
        self._messages[schema_id] = (message, location)

    def keep_absence(self, schema_id: int) -> None:
        """Note that the stripe has no descriptor of a node."""
        self._messages[schema_id] = None

    def descriptor(self, node: DataType) -> StripeFieldDescriptor | None:
        """A node's descriptor, which has been read; None if the stripe has none."""
        entry = self._messages[node.schema_id]
        return None if entry is None else entry[0]

    def field(self, node: DataType, positions: int | None = None) -> StoredField:
        """What the stripe stores of a node that has a descriptor, which has been read.

        Args:
            node: The node.
            positions: How many values it must have; None where only its own descriptor says.

        Raises:
            FormatError: The descriptor is damaged, or gives another number of values.
        """
        found = self._fields.get(node.schema_id)
        if found is None:
            entry = self._messages[node.schema_id]
            if entry is None:
                raise FormatError(f"field {node.name!r} has no descriptor", location=self.files.shown)
            found = self._fields[node.schema_id] = open_field(node, entry[0], self.rules, entry[1])
        if positions is not None and found.positions != positions:
            raise FormatError(
                f"field {node.name!r} (schema id {node.schema_id}) has {found.positions} positions, "
                f"expected {positions}",
                location=redact(found.location),
                rule="docs/formats/amudai.md § 9.3",
            )
        return found


def open_field(node: DataType, message: StripeFieldDescriptor, rules: UrlRules, location: str) -> StoredField:
    """Interpret a descriptor, without reading any buffer.

    Args:
        node: The node of the schema.
        message: The descriptor.
        rules: Resolves the urls of buffers.
        location: The file that the descriptor is in.

    Returns:
        The field, with the first of its encodings that can be read.

    Raises:
        FormatError: The descriptor has more values than possible, or impossible buffers.
        UnsupportedError: A url is absolute, and the caller has not allowed its folder.
    """
    descriptor = message.field
    positions = descriptor.position_count
    if positions > _MAX_POSITIONS:
        raise FormatError(
            f"field {node.name!r} (schema id {node.schema_id}) has {positions} positions, expected at most "
            f"{_MAX_POSITIONS}",
            location=redact(location),
            rule="docs/formats/amudai.md § 9.3",
        )
    constant = descriptor.constant_value if descriptor.HasField("constant_value") else None
    problem = f"field {node.name!r} (schema id {node.schema_id}) has no encoding"
    if not message.encodings and node.basic_type in _VALUES_ALONE:
        return StoredField(node, positions, descriptor, constant, location=location)
    for encoding in message.encodings:
        reason = _unsupported(encoding, node)
        if reason is not None:
            problem = f"field {node.name!r} (schema id {node.schema_id}): {reason}"
        elif encoding.HasField("parquet"):
            return StoredField(node, positions, descriptor, constant, {}, encoding.parquet, location=location)
        else:
            buffers = _open_buffers(encoding.native, rules, location)
            return StoredField(node, positions, descriptor, constant, buffers, location=location)
    return StoredField(node, positions, descriptor, constant, problem=problem, location=location)


def _unsupported(encoding: DataEncoding, node: DataType) -> str | None:
    """Why an encoding cannot be read; None if it can."""
    kind = encoding.WhichOneof("kind")
    if kind == "parquet":
        return "composite types in Parquet files are not read" if node.basic_type.is_composite else None
    if kind is None:
        return "an encoding of an unknown kind"
    if encoding.native.packed_group:
        return "packed groups have no defined bytes"
    kinds = [buffer.kind for buffer in encoding.native.buffers]
    if any(
        buffer.HasField("packed_group_index") and buffer.kind != BufferKind.RANGE_INDEX
        for buffer in encoding.native.buffers
    ):
        return "packed groups have no defined bytes"
    if BufferKind.OPAQUE_DICTIONARY in kinds:
        return "opaque dictionaries have no defined bytes"
    unknown = [kind for kind in kinds if kind not in BufferKind.values()]
    if unknown:
        return f"a buffer of kind {unknown[0]} is unknown"
    return _unsupported_strings(encoding.native, node)


def _unsupported_strings(native: NativeDataEncoding, node: DataType) -> str | None:
    if node.basic_type not in (BasicType.STRING, BasicType.BINARY):
        return None
    kinds = {buffer.kind for buffer in native.buffers}
    if BufferKind.VALUE_DICTIONARY in kinds or BufferKind.OFFSETS in kinds:
        return None
    data = [buffer for buffer in native.buffers if buffer.kind == BufferKind.DATA]
    if data and not data[0].embedded_offsets:
        return "delimited strings have no defined bytes"
    return None


def _open_buffers(native: NativeDataEncoding, rules: UrlRules, location: str) -> dict[int, StoredBuffer]:
    buffers: dict[int, StoredBuffer] = {}
    for message in native.buffers:
        if message.kind in buffers:
            raise FormatError(
                f"an encoding has two {BufferKind.Name(message.kind)} buffers", location=redact(location), rule=_RULE
            )
        buffers[message.kind] = StoredBuffer(message, rules, location)
    return buffers
