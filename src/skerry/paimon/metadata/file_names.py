"""Names that users give to tags, branches and consumers, as parts of file names."""

from __future__ import annotations

from skerry.errors import SchemaError
from skerry.storage import Storage, name

__all__ = ["checked_name", "named_files"]


def checked_name(text: str, what: str) -> str:
    """A name as it is.

    Args:
        text: The name.
        what: What it is given to, for the message.

    Raises:
        SchemaError: It is blank, or cannot be part of a file's name.
    """
    if not text.strip() or any(char in text for char in "/\\\0") or text.startswith("."):
        raise SchemaError(f"{text!r} cannot be the name of a {what}: it must not be blank, nor have slashes")
    return text


def named_files(storage: Storage, folder: str, prefix: str) -> list[str]:
    """The names of the files of a folder that begin with a prefix, without it; none if there is no such folder."""
    names = (name(file.location) for file in storage.list_folder(folder).files)
    return sorted(text.removeprefix(prefix) for text in names if text.startswith(prefix) and text != prefix)
