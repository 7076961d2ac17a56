"""Spark itself: Java, sessions and their settings, Python workers, tasks on executors, errors and progress of jobs."""
