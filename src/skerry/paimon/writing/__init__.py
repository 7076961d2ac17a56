"""Writing data files of Paimon tables: routing to buckets, sorting by key, formats, and the metadata for manifests."""
