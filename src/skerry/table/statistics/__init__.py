"""Statistics: samples and sketches of columns, their maintenance under changes, and their freshness."""
