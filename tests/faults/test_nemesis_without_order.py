"""The nemesis sees an event that overtakes an earlier one with a retrying job."""

from __future__ import annotations

import pytest

from tests.faults.nemesis_run import assert_violation_without


@pytest.mark.timeout(600)
def test_unordered_event_is_received_too_early() -> None:
    assert_violation_without("order")
