"""Writing shards: columns shredded into nodes, encoded, described, and put into files."""
