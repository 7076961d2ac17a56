"""What the table formats share: schema and types, predicates, data files, statistics, and the commit loop."""
