"""The work: one file per job type over the services it wraps."""
