"""Change records: turns frames and streams of them into upserts and deletes, exactly once."""
