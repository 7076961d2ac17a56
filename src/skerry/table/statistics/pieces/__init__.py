"""Pieces of samples: how a statistics file continues the samples of earlier ones, and what a writer remembers."""
