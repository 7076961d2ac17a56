"""Catalogs of Paimon tables that other programs share: Paimon's JDBC catalog and its REST catalog."""
