"""The job system. Imports nothing, so that a worker pays for nothing it skips."""
