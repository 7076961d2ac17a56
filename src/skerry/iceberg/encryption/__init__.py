"""Encrypted tables: from the key management to the key of a manifest list."""
