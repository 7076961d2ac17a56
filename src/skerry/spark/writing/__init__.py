"""Data on its way in: raw files, databases and frames become data files, which the driver commits."""
