"""Statistics of snapshots: samples and Theta sketches in Puffin files, and what they say about columns."""
