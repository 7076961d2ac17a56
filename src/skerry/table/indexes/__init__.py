"""Indexes of tables: which columns have one, which data files they cover, and which rows they leave."""
