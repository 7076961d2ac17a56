"""Partitioning and order: transforms, partition specs, sort orders, and predicates on partition values."""
