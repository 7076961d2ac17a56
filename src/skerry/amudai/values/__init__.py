"""Values as shards store them, from and to Arrow."""
