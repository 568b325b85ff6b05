"""The addresses under /api: their requests and answers."""
