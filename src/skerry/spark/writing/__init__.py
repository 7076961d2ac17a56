"""Incoming data: raw files, databases and frames become data files, which the driver commits."""
