"""Commands that keep a table in order: its statistics, indexes, files and snapshots."""
