"""Decoding of JSON files: strict about Unicode, and with `ValueError` as its only exception."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["decode_json"]


def decode_json(data: bytes | bytearray | str, **hooks: Any) -> Any:
    r"""Decode a JSON document.

    Half of a surrogate pair (`"\ud800"`) is refused: Python accepts it as a character, but no file name, column
    name or Arrow string can hold it.

    Args:
        data: The document; bytes are UTF-8.
        hooks: Further arguments of `json.loads`.

    Raises:
        ValueError: The document is not JSON (`json.JSONDecodeError`) or not UTF-8 (`UnicodeDecodeError`), nests too
            deeply, or has text that is not Unicode.
    """
    text = data if isinstance(data, str) else data.decode("utf-8")
    try:
        found = json.loads(text, **hooks)
        if r"\ud" in text or r"\uD" in text:
            json.dumps(found, ensure_ascii=False, default=str).encode("utf-8")
    except RecursionError as error:
        raise ValueError("it nests too deeply to be read") from error
    except UnicodeEncodeError as error:
        raise ValueError(f"it has text that is not Unicode: {error.reason}") from error
    return found
