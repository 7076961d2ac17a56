"""Evolution: changes of schemas and options."""
