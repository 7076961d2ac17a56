"""Indexes of shards: descriptors, keys, terms, and the tables that hold them. Functions of bytes and Arrow."""
