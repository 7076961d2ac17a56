"""Which kind of file it is, by its first and last bytes, and the tree of that kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from skerry.entry import Entry
from skerry.errors import NotFoundError, SkerryError
from skerry.inspect.amudai_shard import inspect_amudai
from skerry.inspect.avro_file import inspect_avro
from skerry.inspect.json_file import inspect_json
from skerry.inspect.paimon_files import inspect_file_index, inspect_hashes, inspect_vectors
from skerry.inspect.parquet_file import inspect_parquet
from skerry.inspect.puffin_file import inspect_puffin
from skerry.storage import Storage, name, parent

__all__ = ["inspect_file", "part_at"]

Inspect: TypeAlias = Callable[[Storage, str, Sequence[int]], Entry]

_KINDS: Final[tuple[tuple[bytes, Inspect], ...]] = (
    (b"PAR1", inspect_parquet),
    (b"Obj\x01", inspect_avro),
    (b"PFA1", inspect_puffin),
    (b"amud", inspect_amudai),
    (b"{", inspect_json),
    (b"\x1f\x8b", inspect_json),
    (bytes.fromhex("00054e4ed01a35ae"), inspect_file_index),
    (b"\x01\x00\x00", inspect_vectors),
)
"""What a file of a kind begins with."""
_SHOWN_BYTES: Final = 4096


def inspect_file(storage: Storage, location: str, at: Sequence[int] = ()) -> Entry:
    """Look into a file.

    Args:
        storage: Access to it.
        location: The file.
        at: The way to a part of it: the position of a child, of a child of that one, and so on. Parts that cost a read
            of their own are read on this way only.

    Returns:
        The tree. What is damaged has a detail `error` that says so, and what is not known is shown as bytes.

    Raises:
        NotFoundError: There is no such file.
    """
    size = storage.size(location)
    first = storage.read_range(location, 0, min(8, size))
    look = next((kind for magic, kind in _KINDS if first.startswith(magic)), None)
    if look is None:
        is_hashes = name(parent(location)) == "index" and name(location).startswith("index-") and size % 4 == 0
        look = inspect_hashes if is_hashes else _inspect_bytes
    try:
        return look(storage, location, at)
    except NotFoundError:
        raise
    except SkerryError as error:
        found = _inspect_bytes(storage, location, at)
        found.details["error"] = str(error)
        return found


def part_at(tree: Entry, at: Sequence[int]) -> list[Entry]:
    """The entries on the way to a part, the tree itself first.

    Raises:
        NotFoundError: There is no such part.
    """
    way = [tree]
    for position in at:
        if not 0 <= position < len(way[-1].children):
            raise NotFoundError(
                f"{way[-1].kind} {way[-1].name} has {len(way[-1].children)} parts, there is none at {position}"
            )
        way.append(way[-1].children[position])
    return way


def _inspect_bytes(storage: Storage, location: str, at: Sequence[int]) -> Entry:
    """A file of which nothing is known: its size and its first bytes."""
    size = storage.size(location)
    first = storage.read_range(location, 0, min(size, _SHOWN_BYTES))
    details = {"size_bytes": size, "bytes": first.hex(" ", 4)}
    return Entry("file", "", details, location, 0, size)
