"""Migration: a folder of files becomes an Iceberg table, an Iceberg table a Paimon table, and vice versa."""
