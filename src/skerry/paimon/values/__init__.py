"""Values: data types, and the bytes, texts and Arrow columns that stand for their values."""
