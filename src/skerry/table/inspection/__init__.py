"""What a table's metadata contains, as Arrow tables, and what it says about the table's health."""
