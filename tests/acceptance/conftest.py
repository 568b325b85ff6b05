"""Processes that these tests start run without coverage."""

from tests.without_coverage import without_coverage

__all__ = ["without_coverage"]
