"""Paimon tables: schemas, snapshots, manifests, buckets of sorted runs, and the commits that change them."""
