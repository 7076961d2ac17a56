"""Shards: what their files hold besides values: references, framing, directory, schema, stripes, properties."""
