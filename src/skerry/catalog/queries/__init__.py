"""Queries over the tables of a catalog, and statements that change them."""
