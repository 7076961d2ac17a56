"""Fields of stripes: from descriptors and encoded buffers to Arrow arrays."""
