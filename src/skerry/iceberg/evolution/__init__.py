"""Evolution: schemas, partition specs, sort orders, properties and format versions that change."""
