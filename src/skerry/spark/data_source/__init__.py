"""The data source `skerry`: `format("skerry")` of frames and streams, to read and to write."""
