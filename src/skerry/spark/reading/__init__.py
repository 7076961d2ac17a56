"""Tables as frames, and queries over them: planned by skerry, read by Spark, with statistics in its plans."""
