"""Manifests and manifest lists: reading, writing, and a cache of decoded ones."""
