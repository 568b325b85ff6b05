"""The kit to test handlers with, and to break them on purpose."""
