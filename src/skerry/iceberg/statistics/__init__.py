"""Statistics of snapshots: samples and Theta sketches in Puffin files, and column statistics from them."""
