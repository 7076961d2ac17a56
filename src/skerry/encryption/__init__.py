"""Encrypted files: who keeps the keys, which key a file has, and streams of encrypted blocks.

`cryptography` is loaded when the first key is used.
"""

from __future__ import annotations

from skerry.encryption.ciphers import decrypt, encrypt
from skerry.encryption.gcm_stream import GcmOutput, decode_gcm_stream, encode_gcm_stream, read_gcm_range
from skerry.encryption.key_management import KeyFile, KeyManagement, find_key_management, unwrap_key, wrap_key
from skerry.encryption.key_metadata import KeyMetadata, decode_key_metadata, encode_key_metadata, new_file_key

__all__ = [
    "GcmOutput",
    "KeyFile",
    "KeyManagement",
    "KeyMetadata",
    "decode_gcm_stream",
    "decode_key_metadata",
    "decrypt",
    "encode_gcm_stream",
    "encode_key_metadata",
    "encrypt",
    "find_key_management",
    "new_file_key",
    "read_gcm_range",
    "unwrap_key",
    "wrap_key",
]
