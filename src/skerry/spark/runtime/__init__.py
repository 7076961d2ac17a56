"""The Spark runtime: Java, sessions and settings, Python workers, tasks on executors, errors and progress of jobs."""
