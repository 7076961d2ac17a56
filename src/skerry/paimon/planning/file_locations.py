"""The locations of the files of manifests, and checks that they are allowed.

Spec: docs/formats/paimon.md § 1.1, § 1.2, § 7.5.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skerry.errors import FormatError, UnsupportedError
from skerry.paimon.allowed_locations import check_location
from skerry.paimon.metadata.partition_names import partition_texts
from skerry.paimon.metadata.schema import ROW_ID
from skerry.paimon.metadata.state import PaimonState
from skerry.paimon.planning.entry_columns import PartitionCodes
from skerry.paimon.values.byte_spans import Longs

__all__ = ["bucket_folders", "check_locations"]

_RULE: Final = "docs/formats/paimon.md § 1.2"
_NO_NAME: Final = r"^(\.{0,2}$)|[/\\\x00]"
_FORMATS: Final = ("parquet", "orc", "avro", "amudai", "blob")


def bucket_folders(state: PaimonState, partitions: PartitionCodes, buckets: Longs) -> tuple[list[str], Longs]:
    """The folders of files.

    Args:
        state: The table.
        partitions: Partitions of the files.
        buckets: int64[files] Their buckets.

    Returns:
        The folders, and int64[files] the index of each file's folder.

    Raises:
        UnsupportedError: A partition key has a type without a text form.
    """
    if not len(buckets):
        return [], np.zeros(0, np.int64)
    names = state.schema.partition_keys
    used = np.unique(partitions.codes).tolist()
    rows = [partitions.rows[code] for code in used]
    texts = partition_texts(state.schema.partition_fields, rows, legacy=state.options.legacy_partition_names)
    by_code = dict(zip(used, texts, strict=True))
    pairs, indexes = np.unique(np.stack([partitions.codes, buckets], axis=1), axis=0, return_inverse=True)
    folders = [
        state.paths.bucket(list(zip(names, by_code[code], strict=True)), bucket) for code, bucket in pairs.tolist()
    ]
    return folders, indexes.reshape(-1).astype(np.int64)


def check_locations(state: PaimonState, entries: pa.RecordBatch, location: str) -> None:
    """Refuse files that must not be read: metadata written by others could point anywhere.

    Args:
        state: The table.
        entries: Columns of `skerry.paimon.manifests.manifest.ENTRY_SCHEMA`.
        location: The snapshot, for messages.

    Raises:
        FormatError: A name leads outside its folder.
        SkerryError: A file is outside the table's folder.
        UnsupportedError: A file has an unsupported format, or only some of the columns where that is not expected.
    """
    names = entries.column("_FILE_NAME")
    _check_names(names, location)
    _check_names(entries.column("_EXTRA_FILES").values, location)
    suffixes = pc.utf8_lower(pc.replace_substring_regex(names, r"^.*\.", ""))
    unknown = set(pc.unique(suffixes).to_pylist()) - set(_FORMATS)
    if unknown:
        raise UnsupportedError(f"data files of format {min(unknown)!r} are not supported", location=location)
    written = entries.column("_WRITE_COLS")
    if written.null_count < len(written) and not state.options.data_evolution:
        tracked = pc.list_parent_indices(written).filter(pc.equal(written.flatten(), ROW_ID))
        if len(pc.unique(tracked)) < len(written) - written.null_count:
            raise UnsupportedError(
                "data files with only some of the columns need data-evolution.enabled=true", location=location
            )
    for path in entries.column("_EXTERNAL_PATH").drop_null().to_pylist():
        check_location(state, path)


def _check_names(names: pa.Array, location: str) -> None:
    wrong = pc.match_substring_regex(names, _NO_NAME)
    if pc.any(wrong).as_py():
        name = names.filter(wrong)[0].as_py()
        raise FormatError(f"{name!r} is not a valid file name", location=location, rule=_RULE)
