"""Change records: frames and streams of them become upserts and deletes, exactly once."""
