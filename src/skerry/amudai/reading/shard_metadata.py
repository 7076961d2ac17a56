"""The metadata of a shard: directory, schema, stripes, properties, descriptors.

Spec: docs/formats/amudai.md § 2.3; Amudai book, chapter 6, Shard Directory.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Final

from skerry.amudai.fields.stripe_reader import StripeReader
from skerry.amudai.messages import (
    DataRef,
    DataRefArray,
    FieldDescriptor,
    IndexCollection,
    ShardProperties,
    StripeFieldDescriptor,
    StripeList,
    StripeProperties,
    UrlList,
)
from skerry.amudai.reading.properties import PropertyBag, decode_shard_properties, decode_stripe_properties
from skerry.amudai.shard.directory import (
    Stripe,
    decode_directory,
    decode_stripes,
    decode_trailer,
    has_bytes,
)
from skerry.amudai.shard.framing import decode_message
from skerry.amudai.shard.references import Reference, UrlRules, decode_reference_array
from skerry.amudai.shard.schema import DataType, Schema
from skerry.amudai.shard.schema_layout import decode_schema
from skerry.amudai.shard.shard_files import ShardFiles
from skerry.amudai.statistics.descriptors import FieldStatistics, decode_statistics, with_nulls
from skerry.errors import NotFoundError
from skerry.storage import Storage, redact

__all__ = ["ShardMetadata"]

_SPECULATIVE_TAIL_BYTES: Final = 64 * 1024


class ShardMetadata:
    """A shard's root file, open for reading. Safe to use from many threads; holds no open handle.

    The end of the root is read at once, in one or two requests; more when it is asked for.

    Args:
        storage: Where to read from.
        location: Location of the root file.
        allowed_locations: Folders beside that of the root into which absolute urls may lead.
        file_size: The root's size, if it is known: saves asking the store.

    Raises:
        NotFoundError: There is no such file.
        FormatError: It is not a sound shard.
        UnsupportedError: It is of a version to come.
    """

    def __init__(
        self, storage: Storage, location: str, *, allowed_locations: Iterable[str] = (), file_size: int | None = None
    ) -> None:
        tail, size = _read_tail(storage, location, file_size)
        self.location = location
        self.rules = UrlRules(location, allowed_locations)
        self.files = ShardFiles(storage, location, size, tail)
        self.directory = decode_directory(tail, file_size=size, location=self.shown)
        directory = self.directory
        wanted = [directory.schema_ref, directory.stripe_list_ref, directory.url_list_ref]
        if has_bytes(directory.properties_ref):
            wanted.append(directory.properties_ref)
        references = [self.rules.reference(data_ref) for data_ref in wanted]
        schema, stripes, urls, *rest = self.files.read(references)
        self.schema: Schema = decode_schema(schema, location=redact(references[0].location), offset=references[0].start)
        self.stripes: tuple[Stripe, ...] = decode_stripes(
            decode_message(StripeList, stripes, location=self.shown, offset=references[1].start),
            directory,
            location=self.shown,
        )
        listed = decode_message(UrlList, urls, location=self.shown, offset=references[2].start)
        self.urls: tuple[str, ...] = tuple(listed.urls)
        self._properties = rest[0] if rest else None
        self._properties_at = references[-1]

    @property
    def shown(self) -> str:
        """The root's location for messages."""
        return redact(self.location)

    @property
    def record_count(self) -> int:
        """Records that are not deleted."""
        return int(self.directory.total_record_count - self.directory.deleted_record_count)

    @cached_property
    def properties_message(self) -> ShardProperties:
        """The shard's properties as they are stored."""
        if self._properties is None:
            return ShardProperties()
        at = self._properties_at
        return decode_message(ShardProperties, self._properties, location=redact(at.location), offset=at.start)

    @cached_property
    def properties(self) -> PropertyBag:
        """The shard's properties."""
        return decode_shard_properties(self.properties_message, self._follow)

    def stripe_properties(self, ordinal: int) -> PropertyBag:
        """The properties of a stripe."""
        data_ref = self._stripe(ordinal).directory.properties_ref
        if not has_bytes(data_ref):
            return PropertyBag()
        (message,) = self.files.read_messages(StripeProperties, [self.rules.reference(data_ref)])
        return decode_stripe_properties(message, self._follow)

    @cached_property
    def indexes(self) -> IndexCollection:
        """The descriptors of the shard's indexes."""
        return self._indexes(self.directory.indexes_ref)

    def stripe_indexes(self, ordinal: int) -> IndexCollection:
        """The descriptors of a stripe's indexes."""
        return self._indexes(self._stripe(ordinal).directory.indexes_ref)

    def _indexes(self, data_ref: DataRef) -> IndexCollection:
        if not has_bytes(data_ref):
            return IndexCollection()
        return self.files.read_messages(IndexCollection, [self.rules.reference(data_ref)])[0]

    def _follow(self, data_ref: DataRef, within: str | None) -> tuple[memoryview, str]:
        reference = self.rules.reference(data_ref, within)
        return self.files.read([reference])[0], reference.location

    @cached_property
    def descriptor_references(self) -> list[Reference | None]:
        """Where the shard's descriptors of fields are, by schema id; None where there is none.

        The reference implementation stores the url that the root had when it was written. The message's checksum shows
        whether the root still has the descriptor.
        """
        reference = self.rules.reference(self.directory.field_list_ref)
        (array,) = self.files.read_messages(DataRefArray, [reference])
        entries = decode_reference_array(array, self.schema.schema_id_count, location=self.location)
        return [None if entry is None else Reference(self._root_or(entry[0]), entry[1], entry[2]) for entry in entries]

    def _root_or(self, url: str) -> str:
        return self.location if "://" in url else self.rules.resolve(url)

    def descriptors(self, nodes: Iterable[DataType]) -> list[FieldDescriptor | None]:
        """What is known of nodes in the whole shard; None where the shard has no descriptor.

        Raises:
            FormatError: A descriptor is damaged.
        """
        references = [self.descriptor_references[node.schema_id] for node in nodes]
        messages = iter(self.files.read_messages(FieldDescriptor, [found for found in references if found]))
        return [next(messages) if found else None for found in references]

    def statistics(self, node: DataType) -> FieldStatistics | None:
        """The statistics of a node in the whole shard; None if it has none.

        The reference describes a column by the stripes that have it. In the others all its values are null.
        """
        (found,) = self.descriptors([node])
        if found is None:
            return None
        statistics = decode_statistics(node, found, location=self.shown)
        is_column = any(field.data_type is node for field in self.schema.fields)
        return with_nulls(statistics, int(self.directory.total_record_count)) if is_column else statistics

    def _stripe(self, ordinal: int) -> Stripe:
        if not 0 <= ordinal < len(self.stripes):
            raise NotFoundError(f"stripe {ordinal} of {len(self.stripes)}", location=self.shown)
        return self.stripes[ordinal]

    def stripe_readers(self, ordinals: Iterable[int] | None = None) -> list[StripeReader]:
        """Open stripes: reads where their descriptors are, together.

        Args:
            ordinals: Which stripes; all by default.

        Raises:
            NotFoundError: There is no stripe of an ordinal.
            FormatError: A list of references is damaged.
        """
        stripes = self.stripes if ordinals is None else [self._stripe(ordinal) for ordinal in ordinals]
        having = [stripe for stripe in stripes if has_bytes(stripe.directory.field_list_ref)]
        references = [self.rules.reference(stripe.directory.field_list_ref) for stripe in having]
        arrays = dict(
            zip(
                (stripe.ordinal for stripe in having),
                self.files.read_messages(DataRefArray, references),
                strict=True,
            )
        )
        readers = []
        for stripe in stripes:
            array = arrays.get(stripe.ordinal, DataRefArray())
            entries = decode_reference_array(array, self.schema.schema_id_count, location=self.location)
            readers.append(StripeReader(self.files, self.rules, self.schema, stripe, entries))
        return readers

    def stripe_offsets(self) -> list[int]:
        """Where the data of each stripe begins in the file that holds it: at its first buffer.

        A stripe without buffers, because all its fields are constant, begins where the one before does, but one.
        """
        readers = self.stripe_readers()
        found: dict[int, int] = {}
        for node in self.schema.nodes():
            missing = [reader for reader in readers if reader.stripe.ordinal not in found]
            if not missing:
                break
            self.load_descriptors(missing, [node])
            for reader in missing:
                start = reader.first_buffer(node)
                if start is not None:
                    found[reader.stripe.ordinal] = start
        offsets: list[int] = []
        for stripe in self.stripes:
            before = offsets[-1] + 1 if offsets else 0
            offsets.append(found.get(stripe.ordinal, before))
        return offsets

    def load_descriptors(self, readers: Iterable[StripeReader], nodes: Iterable[DataType]) -> None:
        """Read the descriptors of nodes in several stripes, together."""
        wanted = [(reader, *entry) for reader in readers for entry in reader.descriptor_references(nodes)]
        messages = self.files.read_messages(StripeFieldDescriptor, [reference for _, _, reference in wanted])
        for (reader, schema_id, reference), message in zip(wanted, messages, strict=True):
            reader.fields.keep(schema_id, message, reference.location)


def _read_tail(storage: Storage, location: str, file_size: int | None) -> tuple[bytes, int]:
    """The end of the root with the whole directory, and the size of the file."""
    if file_size is None:
        tail, file_size = storage.read_tail(location, _SPECULATIVE_TAIL_BYTES)
    else:
        length = min(_SPECULATIVE_TAIL_BYTES, file_size)
        tail = storage.read_range(location, file_size - length, length)
    needed = decode_trailer(tail, file_size=file_size, location=redact(location))
    if needed > len(tail):
        missing = needed - len(tail)
        tail = bytes(storage.read_range(location, file_size - needed, missing)) + tail
    return tail, file_size
