"""AES GCM with a random nonce in front of the ciphertext and a tag after it.

Spec: Iceberg AES GCM Stream spec, Cipher Block structure.
"""

from __future__ import annotations

import os
from typing import Final

from skerry.errors import FormatError

__all__ = ["KEY_BYTES", "NONCE_BYTES", "TAG_BYTES", "decrypt", "encrypt"]

KEY_BYTES: Final = (16, 24, 32)
"""The lengths that keys of AES have."""
NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16
_RULE: Final = "Iceberg AES GCM Stream spec, Cipher Block structure"


def encrypt(key: bytes, data: bytes | bytearray | memoryview, aad: bytes | None = None) -> bytes:
    """Encrypt bytes under a new nonce.

    Args:
        key: 16, 24 or 32 bytes.
        data: The bytes.
        aad: Further bytes that decryption has to be given; they are not stored.

    Returns:
        Nonce, ciphertext and tag: 28 bytes more than the data.
    """
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, data, aad)


def decrypt(
    key: bytes,
    data: bytes | bytearray | memoryview,
    aad: bytes | None = None,
    *,
    location: str | None = None,
    offset: int | None = None,
) -> bytes:
    """Decrypt bytes, and check that they are what was encrypted.

    Args:
        key: 16, 24 or 32 bytes.
        data: Nonce, ciphertext and tag.
        aad: What `encrypt` was given.
        location: The file, for messages.
        offset: Where in it the data begins.

    Raises:
        FormatError: They are too short, were changed, or the key or `aad` is another: AES GCM cannot tell which.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    view = memoryview(data)
    if len(view) < NONCE_BYTES + TAG_BYTES:
        raise FormatError(
            f"{len(view)} encrypted bytes, expected at least {NONCE_BYTES + TAG_BYTES}",
            location=location,
            offset=offset,
            rule=_RULE,
        )
    try:
        return AESGCM(key).decrypt(bytes(view[:NONCE_BYTES]), view[NONCE_BYTES:], aad)
    except InvalidTag:
        raise FormatError(
            "cannot be decrypted: the bytes were changed, or encrypted with another key",
            location=location,
            offset=offset,
            rule=_RULE,
        ) from None
