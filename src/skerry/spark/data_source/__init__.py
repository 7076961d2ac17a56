"""The data source `skerry`: `format("skerry")` for reading and writing frames and streams."""
