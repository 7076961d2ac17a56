"""Cleaning: which files the snapshots of a table need, and which may be deleted."""
