"""Requests to the servers of catalogs of every table format: bounded, repeated only where that is safe."""
