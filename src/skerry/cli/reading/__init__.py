"""Commands that look: tables, rows, statistics, plans and files."""
