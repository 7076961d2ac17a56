"""The keys of an encrypted table.

The key management unwraps key-encryption keys, these decrypt the key metadata of manifest lists. Manifest lists contain
that of manifests, and manifests that of data and delete files.

Spec: Iceberg spec, Encryption Keys; docs/encryption.md, Keys in the metadata.
"""

from __future__ import annotations

import base64
import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from skerry.encryption import (
    KeyManagement,
    KeyMetadata,
    decode_key_metadata,
    decrypt,
    encode_key_metadata,
    encrypt,
    unwrap_key,
    wrap_key,
)
from skerry.errors import FormatError, SkerryError, UnsupportedError
from skerry.iceberg.metadata.table_metadata import TABLE_KEY_ID, EncryptedKey, TableMetadata

__all__ = ["KeyRing", "KnownKeys", "TableKeys"]

_TIMESTAMP: Final = "KEY_TIMESTAMP"
_LIFE_MS: Final = 730 * 24 * 3600 * 1000
"""How long a key-encryption key encrypts new keys, as in Iceberg Java."""
_KEPT_SECONDS: Final = 3600.0
_RULE: Final = "Iceberg spec, Encryption Keys"


def _new_id() -> str:
    return base64.b64encode(os.urandom(16)).decode()


class KeyRing:
    """Unwrapped key-encryption keys of a catalog's tables, each asked for once an hour. Safe to use from many threads.

    Args:
        key_management: Who unwraps them.
    """

    def __init__(self, key_management: KeyManagement) -> None:
        self.key_management = key_management
        self._kept: dict[tuple[str, bytes], tuple[bytes, float]] = {}
        self._lock = threading.Lock()

    def unwrap(self, wrapped: bytes, key_id: str) -> bytes:
        """A key, unwrapped by the key management or earlier.

        Raises:
            SkerryError: The key management refuses.
        """
        with self._lock:
            key, until = self._kept.get((key_id, wrapped), (b"", 0.0))
        if until < time.monotonic():
            key = unwrap_key(self.key_management, wrapped, key_id)
            with self._lock:
                self._kept[key_id, wrapped] = key, time.monotonic() + _KEPT_SECONDS
        return key

    def wrap(self, key: bytes, key_id: str) -> bytes:
        """A new key, wrapped by the key management; it need not be unwrapped for a while.

        Raises:
            SkerryError: The key management refuses.
        """
        wrapped = wrap_key(self.key_management, key, key_id)
        with self._lock:
            self._kept[key_id, wrapped] = key, time.monotonic() + _KEPT_SECONDS
        return wrapped

    def __repr__(self) -> str:
        return f"KeyRing({type(self.key_management).__name__})"


@dataclass(frozen=True, slots=True)
class KnownKeys:
    """What decrypts some manifest lists, for a task elsewhere; picklable. It is never printed.

    Args:
        keys: The keys by what snapshots call them.
    """

    keys: Mapping[str, KeyMetadata] = field(repr=False)

    def manifest_list_key(self, key_id: str) -> KeyMetadata:
        """The key of a manifest list.

        Raises:
            UnsupportedError: It is not one of them.
        """
        if key_id not in self.keys:
            raise UnsupportedError(f"key {key_id!r} was not given to this task", rule=_RULE)
        return self.keys[key_id]


class TableKeys:
    """What decrypts the manifest lists of one state of a table. It is never printed nor pickled.

    Args:
        table: The table's name, for messages.
        metadata: The state.
        ring: Who unwraps keys; None if nobody does.
    """

    def __init__(self, table: str, metadata: TableMetadata, ring: KeyRing | None) -> None:
        self._table = table
        self._table_key_id = metadata.properties.get(TABLE_KEY_ID)
        self._keys: Mapping[str, EncryptedKey] = {key.key_id: key for key in metadata.encryption_keys}
        self._ring = ring

    def of(self, metadata: TableMetadata) -> TableKeys:
        """Those of another state of the table."""
        return TableKeys(self._table, metadata, self._ring)

    def manifest_list_key(self, key_id: str) -> KeyMetadata:
        """The key of a manifest list.

        Args:
            key_id: What its snapshot calls it.

        Raises:
            FormatError: The metadata lacks it, or it cannot be decrypted.
            SkerryError: The key management refuses.
            UnsupportedError: There is no key management.

        Spec: Iceberg spec, Encryption Keys, Snapshots: `key-id`; docs/encryption.md, Keys in the metadata.
        """
        ring = self._ring_or_refuse("reading")
        found = self._key(key_id)
        wrapping = self._key(found.encrypted_by_id)
        if wrapping.encrypted_by_id is None or wrapping.encrypted_by_id != self._table_key_id:
            raise self._malformed(f"key {wrapping.key_id!r} is not encrypted with the table's key")
        timestamp = (wrapping.properties or {}).get(_TIMESTAMP)
        if timestamp is None:
            raise self._malformed(f"key {wrapping.key_id!r} lacks its {_TIMESTAMP}")
        try:
            key = ring.unwrap(self._bytes(wrapping), wrapping.encrypted_by_id)
            return decode_key_metadata(decrypt(key, self._bytes(found), timestamp.encode()))
        except SkerryError as error:
            error.message = f"the key of a manifest list cannot be found: {error.message}"
            error.location = error.location or self._table
            raise

    def check_usable(self) -> None:
        """Refuse to begin a commit whose keys nobody could wrap.

        Raises:
            UnsupportedError: There is no key management.
        """
        self._ring_or_refuse("writing to")

    def add_manifest_list(self, key: KeyMetadata, key_bytes: int, now_ms: int) -> tuple[EncryptedKey, ...]:
        """The keys that metadata gets for a new manifest list.

        The key of the list is encrypted by the newest key-encryption key that is not two years old. If there is none,
        a new one is wrapped by the key management.

        Args:
            key: The key of the list, with its length.
            key_bytes: How long a new key-encryption key is.
            now_ms: The time, in milliseconds since 1970.

        Returns:
            The keys; the last one is that of the manifest list, which the snapshot names.

        Raises:
            FormatError: The key-encryption key cannot be unwrapped.
            SkerryError: The key management refuses.
            UnsupportedError: There is no key management.

        Spec: Iceberg spec, Encryption Keys; docs/encryption.md, Keys in the metadata.
        """
        ring = self._ring_or_refuse("writing to")
        table_key_id = str(self._table_key_id)
        added: tuple[EncryptedKey, ...] = ()
        found = self._usable_key(now_ms)
        if found is None:
            secret, timestamp = os.urandom(key_bytes), str(now_ms)
            wrapped = base64.b64encode(ring.wrap(secret, table_key_id)).decode()
            wrapping = EncryptedKey(
                key_id=_new_id(),
                encrypted_key_metadata=wrapped,
                encrypted_by_id=table_key_id,
                properties={_TIMESTAMP: timestamp},
            )
            added = (wrapping,)
        else:
            wrapping, timestamp = found
            try:
                secret = ring.unwrap(self._bytes(wrapping), table_key_id)
            except SkerryError as error:
                error.message = f"the key that encrypts new keys cannot be found: {error.message}"
                error.location = error.location or self._table
                raise
        encrypted = base64.b64encode(encrypt(secret, encode_key_metadata(key), timestamp.encode())).decode()
        of_list = EncryptedKey(
            key_id=_new_id(), encrypted_key_metadata=encrypted, encrypted_by_id=wrapping.key_id, properties=None
        )
        return (*added, of_list)

    def _usable_key(self, now_ms: int) -> tuple[EncryptedKey, str] | None:
        """The newest key-encryption key that is not too old, and its time as it is written."""
        newest: tuple[int, EncryptedKey, str] | None = None
        for key in self._keys.values():
            text = (key.properties or {}).get(_TIMESTAMP, "")
            if key.encrypted_by_id != self._table_key_id or not (text.isascii() and text.isdigit()):
                continue
            made_ms = int(text)
            if now_ms - made_ms < _LIFE_MS and (newest is None or made_ms > newest[0]):
                newest = made_ms, key, text
        return None if newest is None else newest[1:]

    def _ring_or_refuse(self, what: str) -> KeyRing:
        if self._ring is None:
            raise UnsupportedError(
                f"the table is encrypted with key {self._table_key_id!r}: {what} it needs a key management, "
                "connect(…, key_management=…)",
                location=self._table,
                rule=_RULE,
            )
        return self._ring

    def known(self, key_ids: Iterable[str | None]) -> KnownKeys:
        """The keys of some manifest lists; None stands for one that is not encrypted.

        Raises:
            SkerryError: As `manifest_list_key`.
        """
        return KnownKeys({key_id: self.manifest_list_key(key_id) for key_id in key_ids if key_id is not None})

    def _key(self, key_id: str | None) -> EncryptedKey:
        found = None if key_id is None else self._keys.get(key_id)
        if found is None:
            raise self._malformed(f"the metadata has no key {key_id!r}")
        return found

    def _bytes(self, key: EncryptedKey) -> bytes:
        try:
            return base64.b64decode(key.encrypted_key_metadata, validate=True)
        except ValueError:
            raise self._malformed(f"key {key.key_id!r} is not Base64") from None

    def _malformed(self, problem: str) -> FormatError:
        return FormatError(problem, location=self._table, rule=_RULE)

    def __repr__(self) -> str:
        return f"TableKeys({self._table!r})"
