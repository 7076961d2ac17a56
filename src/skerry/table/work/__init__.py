"""Execution of work: tasks and executors, threads that read ahead, and progress."""
