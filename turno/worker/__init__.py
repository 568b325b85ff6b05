"""The parent of a worker: it claims, gives batches to children, enforces limits, and rescues unfinished jobs."""
