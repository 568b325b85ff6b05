"""The child of a worker: it runs batches of jobs and records how each attempt ended."""
