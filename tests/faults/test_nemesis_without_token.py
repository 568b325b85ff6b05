"""The nemesis sees that tokens are not compared: a worker wakes, and ends what another has begun."""

from __future__ import annotations

import pytest

from tests.faults.nemesis_run import assert_found_without


@pytest.mark.timeout(600)
def test_without_the_token_an_effect_is_of_no_attempt() -> None:
    assert_found_without("token")
