"""What jobs of every table format share: publication, streams, change records, the removal of orphans."""
