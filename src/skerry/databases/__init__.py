"""SQL databases: transactions that always end, in SQLite and PostgreSQL, for the catalogs of every table format."""
