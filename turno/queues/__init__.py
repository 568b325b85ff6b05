"""How a worker learns that a job waits; always a hint, never the truth."""
