"""How a worker learns that a job waits; a hint may be lost, because only the ticket counts."""
