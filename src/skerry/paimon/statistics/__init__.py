"""Statistics: samples and sketches stored with the table, and what they show about columns."""
