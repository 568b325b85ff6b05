"""The nemesis sees two jobs under one key, and an item that failed after it had written."""

from __future__ import annotations

import pytest

from tests.faults.nemesis_run import assert_violation_without


@pytest.mark.timeout(600)
@pytest.mark.parametrize("guard", ["unique", "savepoint"])
def test_without_it_something_is_there_twice_or_half(guard: str) -> None:
    assert_violation_without(guard)
