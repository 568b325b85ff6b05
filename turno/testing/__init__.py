"""The kit to test handlers with, and to break them on purpose: see docs/testing-handlers.md."""
