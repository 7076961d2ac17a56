"""Writing: data files and delete files with their metrics for manifests."""
