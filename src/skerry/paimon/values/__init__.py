"""Values: data types, and the encoding of their values as bytes, texts and Arrow columns."""
