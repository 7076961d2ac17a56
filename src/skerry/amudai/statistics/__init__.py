"""What is known of a field without its values: statistics, sketches and indexes."""
