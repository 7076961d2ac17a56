"""Reading: scans of a snapshot, and changes between two of them."""
