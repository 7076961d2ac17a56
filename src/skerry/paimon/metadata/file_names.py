"""Names that users give to tags, branches and consumers, as parts of file names."""

from __future__ import annotations

from skerry.errors import SchemaError
from skerry.storage import Storage, name

__all__ = ["checked_name", "named_files"]


def checked_name(text: str, what: str) -> str:
    """Check a name.

    Args:
        text: The name.
        what: What it is the name of, for the message.

    Raises:
        SchemaError: It is blank, or cannot be part of a file name.
    """
    if not text.strip() or any(char in text for char in "/\\\0") or text.startswith("."):
        raise SchemaError(
            f"{text!r} is not a valid {what} name: it must not be blank, contain slashes or begin with a dot"
        )
    return text


def named_files(storage: Storage, folder: str, prefix: str) -> list[str]:
    """The names of the files of a folder that begin with a prefix, without it; empty if the folder does not exist."""
    names = (name(file.location) for file in storage.list_folder(folder).files)
    return sorted(text.removeprefix(prefix) for text in names if text.startswith(prefix) and text != prefix)
