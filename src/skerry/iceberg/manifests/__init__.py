"""Manifests and manifest lists: read, written, decoded once and kept."""
