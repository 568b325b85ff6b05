"""The addresses under /api: what they take, and what they answer."""
