"""Planning: from a condition to the splits of buckets that can hold matching rows."""
