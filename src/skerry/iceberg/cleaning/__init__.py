"""Cleaning: which files the snapshots of a table reach, and which snapshots may expire."""
