"""SQL of a handler's login: attempts, batches, items."""
