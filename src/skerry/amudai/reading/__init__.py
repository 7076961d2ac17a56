"""Reading shards: which stripes and rows, and their values as tables."""
