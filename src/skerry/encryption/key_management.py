"""Key management: who keeps the keys of tables, and wraps the keys that wrap all others.

A table's own key never leaves the key management. It wraps key-encryption keys, whose wrapped form is in the table's
metadata.
"""

from __future__ import annotations

import base64
import importlib
import os
import stat
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Self

from skerry.encryption.ciphers import KEY_BYTES, decrypt, encrypt
from skerry.errors import FormatError, NotFoundError, SchemaError, SkerryError, StorageError
from skerry.storage import decode_json

__all__ = ["KEY_FILE", "KEY_MANAGEMENT", "KeyFile", "KeyManagement", "find_key_management", "unwrap_key", "wrap_key"]

KEY_MANAGEMENT: Final = "encryption.key-management"
"""The property of a catalog that names the class of its key management, as `module:Class`."""
KEY_FILE: Final = "encryption.key-file"
"""The property of a catalog that names the file of a `KeyFile`."""


class KeyManagement(ABC):
    """What keeps the keys of tables: a service of a cloud, a vault, a file.

    To use another one, implement both methods. They may raise anything; of exceptions that are not skerry's own, only
    the name of the class is repeated, since their text may hold keys. An instance is called from several threads, and
    stays in the process that opened the catalog.
    """

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """An instance for a catalog.

        Args:
            properties: The properties of the catalog.
        """
        del properties
        return cls()

    @abstractmethod
    def wrap_key(self, key: bytes, key_id: str) -> bytes:
        """Encrypt a key.

        Args:
            key: The key.
            key_id: Which of the kept keys encrypts it: a table's property `encryption.key-id`.
        """

    @abstractmethod
    def unwrap_key(self, wrapped: bytes, key_id: str) -> bytes:
        """Decrypt a key.

        Args:
            wrapped: What `wrap_key` returned.
            key_id: The same as then.
        """


class KeyFile(KeyManagement):
    """Keys in a JSON file, for tests and for those who can protect a file: `{"key id": "key in Base64"}`.

    Keys are wrapped by AES GCM: nonce, ciphertext, tag.

    Args:
        path: The file. Nobody but its owner may read it.

    Raises:
        FormatError: It is not such a file.
        SkerryError: It cannot be read, or others may read it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._keys = _read_keys(self.path)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """The file that the property `encryption.key-file` of a catalog names.

        Raises:
            SchemaError: There is no such property.
        """
        if KEY_FILE not in properties:
            raise SchemaError(f"the property {KEY_FILE} is missing: the path of the file with the keys")
        return cls(properties[KEY_FILE])

    def wrap_key(self, key: bytes, key_id: str) -> bytes:
        """Encrypt a key; see `KeyManagement.wrap_key`."""
        return encrypt(self._key(key_id), key)

    def unwrap_key(self, wrapped: bytes, key_id: str) -> bytes:
        """Decrypt a key; see `KeyManagement.unwrap_key`."""
        return decrypt(self._key(key_id), wrapped)

    def _key(self, key_id: str) -> bytes:
        if key_id not in self._keys:
            raise NotFoundError(f"the key file has no key {key_id!r}", location=str(self.path))
        return self._keys[key_id]

    def __repr__(self) -> str:
        return f"KeyFile({str(self.path)!r})"

    def __reduce__(self) -> tuple[type[KeyFile], tuple[Path]]:
        return type(self), (self.path,)


def _read_keys(path: Path) -> dict[str, bytes]:
    try:
        if os.name == "posix" and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise SkerryError("others than its owner may use the key file: chmod 600", location=str(path))
        data = path.read_bytes()
    except OSError as error:
        raise SkerryError(f"the key file cannot be read: {error.strerror}", location=str(path)) from None
    try:
        found = {name: base64.b64decode(text, validate=True) for name, text in decode_json(data).items()}
    except (ValueError, TypeError, AttributeError, SkerryError):
        # the reason might quote a key
        raise FormatError("the key file is not a JSON object of keys in Base64", location=str(path)) from None
    for name, key in found.items():
        if len(key) not in KEY_BYTES:
            raise FormatError(f"key {name!r} has {len(key)} bytes, expected 16, 24 or 32", location=str(path))
    return found


def find_key_management(
    given: KeyManagement | str | None, properties: Mapping[str, Any] | None = None
) -> KeyManagement | None:
    """The key management that an argument or a property means; None if there is neither.

    Args:
        given: An instance, or a class as `module:Class`.
        properties: The properties of the catalog; `encryption.key-management` counts if nothing is given.

    Raises:
        SchemaError: It is neither, or the class cannot be loaded or has no `wrap_key` and `unwrap_key`.
        SkerryError: An instance cannot be created.
    """
    properties = properties or {}
    given = properties.get(KEY_MANAGEMENT) if given is None else given
    if given is None or isinstance(given, KeyManagement):
        return given
    if not isinstance(given, str):
        raise SchemaError(f"key_management must be a KeyManagement or 'module:Class', found {type(given).__name__}")
    module, _, name = given.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise SchemaError(f"key_management {given!r} cannot be loaded: {error}") from None
    if not (isinstance(found, type) and issubclass(found, KeyManagement)):
        raise SchemaError(f"key_management {given!r} is not a subclass of skerry.encryption.KeyManagement")
    return _asked("cannot be opened", lambda: found.from_properties(properties))


def unwrap_key(keys: KeyManagement, wrapped: bytes, key_id: str) -> bytes:
    """Have a key decrypted.

    Args:
        keys: Who can do that.
        wrapped: The encrypted key.
        key_id: The key that it was encrypted with.

    Raises:
        FormatError: What comes back is not a key.
        SkerryError: The key management refuses, in its own words if it says so by an error of skerry.
        StorageError: It fails.
    """
    key = _asked(f"refuses or does not know key {key_id!r}", lambda: keys.unwrap_key(wrapped, key_id))
    if not isinstance(key, bytes | bytearray | memoryview) or len(key) not in KEY_BYTES:
        raise FormatError(f"the key management unwrapped key {key_id!r} to something that is not a key of AES")
    return bytes(key)


def wrap_key(keys: KeyManagement, key: bytes, key_id: str) -> bytes:
    """Have a key encrypted.

    Args:
        keys: Who can do that.
        key: The key.
        key_id: The key that encrypts it.

    Raises:
        FormatError: What comes back is not a wrapped key.
        SkerryError: The key management refuses, in its own words if it says so by an error of skerry.
        StorageError: It fails.
    """
    wrapped = _asked(f"refuses or does not know key {key_id!r}", lambda: keys.wrap_key(key, key_id))
    if not isinstance(wrapped, bytes | bytearray | memoryview) or not len(wrapped) or bytes(wrapped) == key:
        raise FormatError(f"the key management did not wrap a key with key {key_id!r}")
    return bytes(wrapped)


def _asked(problem: str, ask: Any) -> Any:
    try:
        return ask()
    except SkerryError:
        raise
    except Exception as error:  # noqa: BLE001  whatever a service raises
        # neither its text nor its traceback goes on: they may hold keys
        raise StorageError(f"the key management {problem}: {type(error).__name__}") from None
