"""Writing: data files and delete files with the metrics that manifests keep."""
