"""Statistics, sketches and indexes of fields."""
