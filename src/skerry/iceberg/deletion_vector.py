"""Deletion vectors of Iceberg v3 tables; their bytes are a blob type of Puffin's."""

from __future__ import annotations

from skerry.puffin.deletion_vector import decode_deletion_vector, encode_deletion_vector

__all__ = ["decode_deletion_vector", "encode_deletion_vector"]
