"""SQL functions by which applications follow, cancel and retry jobs without a web process."""
