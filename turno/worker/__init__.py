"""The parent of a worker: it claims, gives jobs to children, watches them, and rescues what they left."""
