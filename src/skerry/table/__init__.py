"""What the table formats share: schema and types, predicates, data files, statistics and freshness, the commit loop."""
