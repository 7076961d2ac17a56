"""Tables as frames, and queries over them: planned here, read by Spark, with statistics in its plans."""
