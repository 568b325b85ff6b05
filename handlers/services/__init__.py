"""The business code that handlers wrap; nothing in here knows of jobs."""
