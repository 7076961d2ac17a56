"""Evolution: schemas and options that change."""
