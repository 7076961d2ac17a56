"""Statistics: samples and sketches beside the table, and what they say about columns."""
