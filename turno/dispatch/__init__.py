"""Commands about jobs: enqueue, cancel, retry."""
