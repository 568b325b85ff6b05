"""See what jobs do."""
