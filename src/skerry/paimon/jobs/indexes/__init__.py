"""Indexes of the format, built for rows that are there: global indexes, and those of single files."""
