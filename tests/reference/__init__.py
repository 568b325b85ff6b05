"""The reference pages, generated from the source: `uv run python -m tests.reference` writes them."""
