"""Outside effects: `job.once`."""
