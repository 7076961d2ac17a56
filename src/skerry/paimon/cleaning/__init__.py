"""Cleaning: which files the snapshots of a table need, and what may go."""
