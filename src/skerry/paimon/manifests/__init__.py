"""Manifests: which data files, index files and deletion vectors a snapshot has."""
