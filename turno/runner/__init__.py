"""The child of a worker: it runs one attempt after another and records how each ended."""
