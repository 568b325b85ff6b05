"""Business code that knows nothing of jobs."""
