"""Rewrite the samples in statistics files, which identify data files by hashes of their locations.

Only samples are changed: blobs and other writers' content stay byte for byte.

Spec: docs/formats/samples.md § 1; Puffin spec, File structure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import xxhash

from skerry.errors import FormatError, NotFoundError, UnsupportedError
from skerry.iceberg.relocation.names import NewNames
from skerry.puffin import PuffinReader
from skerry.puffin.layout import MAGIC, encode_footer
from skerry.table.statistics.file_groups import FileGroup
from skerry.table.statistics.group_samples import MAX_GROUPS, GroupSamples
from skerry.table.statistics.group_samples_layout import encode_group_samples
from skerry.table.statistics.group_sketches import GroupSketches, encode_group_sketches, group_key
from skerry.table.statistics.pieces.chain import (
    SAMPLE_PROPERTIES,
    SKETCH_PROPERTIES,
    begin_of_samples,
    pieces_of,
    read_group_sketches,
    without_samples,
)
from skerry.table.statistics.puffin_regions import ROW_PROPERTIES
from skerry.table.statistics.row_sample import encode_row_sample
from skerry.table.table_files import FileKind

__all__ = ["relocate_statistics"]


def relocate_statistics(names: NewNames, file: dict[str, Any], old: Mapping[int, str]) -> None:
    """Update the entry of a statistics file in table metadata for its present location.

    Samples that continue those of other files become whole, because the checksums of these change.

    Args:
        names: The table's old and new names; all of its manifests must be written already.
        file: One of the entries `statistics`, changed in place.
        old: The old locations of all of them, by snapshot.
    """
    location = file["statistics-path"]
    if location in names.statistics:  # rewritten for an earlier metadata file
        file |= names.statistics[location]
        return
    found = None if names.keeps_data else _rewritten(names, location, file["snapshot-id"], old)
    if found is None:
        file["statistics-path"] = names.carry(location, FileKind.STATISTICS, file["file-size-in-bytes"])
        return
    data, footer_size = found
    new = names.new_file(f"-{file['snapshot-id']}.stats", location)
    size = names.write(new, data, location, FileKind.STATISTICS)
    if size != len(data) and not names.dry_run:  # an earlier copy has written it
        footer_size = PuffinReader(new, storage=names.target).footer_size
    names.written.statistics_files += 1
    names.renamed[location] = new
    names.statistics[location] = {
        "statistics-path": new,
        "file-size-in-bytes": size,
        "file-footer-size-in-bytes": footer_size,
    }
    file |= names.statistics[location]


def _rewritten(names: NewNames, location: str, snapshot_id: int, old: Mapping[int, str]) -> tuple[bytes, int] | None:
    """A statistics file with new samples, and the size of its footer; None if it holds no samples that can be read."""
    try:
        reader = PuffinReader(location, storage=names.storage)
        found = pieces_of(lambda number: _open(names, old, number), str(snapshot_id))
    except (FormatError, NotFoundError, UnsupportedError):
        return None
    if found is None:
        return None  # such samples are lost in any location
    samples = found.groups().bounded(MAX_GROUPS)
    try:
        own = read_group_sketches(reader)
    except FormatError:
        own = GroupSketches()
    blobs_end = max((blob.offset + blob.length for blob in reader.blobs), default=len(MAGIC))
    begin = begin_of_samples(reader)
    kept_bytes = begin if begin >= blobs_end else reader.file_size - reader.footer_size
    content = names.storage.read_range(location, 0, kept_bytes)
    moved = [replace(group, files=_files(names, group)) for group in samples.groups]
    properties = without_samples(reader.properties)
    data = content + _region(
        properties, SAMPLE_PROPERTIES, len(content), encode_group_samples(GroupSamples(tuple(moved), samples.columns))
    )
    if samples.rows is not None:
        keys = {file: names.file_keys.get(file, file) for group in samples.groups for file in group.files}
        data += _region(properties, ROW_PROPERTIES, len(data), encode_row_sample(samples.rows.renamed(keys)))
    if own.sketches:
        keys = {group_key(old.files): group_key(new.files) for old, new in zip(samples.groups, moved, strict=True)}
        kept = {keys[key]: sketches for key, sketches in own.sketches.items() if key in keys}
        data += _region(properties, SKETCH_PROPERTIES, len(data), encode_group_sketches(GroupSketches(kept)))
    footer = encode_footer(replace(reader.file_metadata, properties=properties))
    return data + footer, len(footer)


def _open(names: NewNames, old: Mapping[int, str], snapshot_id: str) -> PuffinReader | None:
    location = old.get(int(snapshot_id)) if snapshot_id.isdecimal() else None
    reader = None if location is None else PuffinReader(location, storage=names.storage)
    return reader if reader is not None and reader.properties.get(SAMPLE_PROPERTIES[3]) == snapshot_id else None


def _region(properties: dict[str, str], keys: tuple[str, ...], offset: int, data: bytes) -> bytes:
    """Record the offsets of bytes in the footer's properties."""
    properties |= dict(zip(keys[:3], (str(offset), str(len(data)), xxhash.xxh3_64_hexdigest(data)), strict=True))
    return data


def _files(names: NewNames, group: FileGroup) -> dict[int, int]:
    """The files of a group by their new keys.

    A combined key of several deletes is kept: no deletes match it now, and the file counts as having other deletes.
    """
    return {names.file_keys.get(file, file): names.delete_keys.get(key, key) for file, key in group.files.items()}
