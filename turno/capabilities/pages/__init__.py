"""The tenant's pages: list of jobs, job, notifications."""
