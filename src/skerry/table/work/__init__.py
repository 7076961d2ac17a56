"""Work: tasks and where they run, threads that read ahead, and how progress is shown."""
