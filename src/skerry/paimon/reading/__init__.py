"""Reading: scans of a snapshot, rows of splits, and changes between snapshots."""
