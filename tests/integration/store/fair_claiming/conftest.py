"""The rules and tenants of one test only."""

from collections.abc import Iterator

import pytest

from tests.installation import ExampleInstallation
from tests.integration.store.fair_claiming.work import CLAIMERS


@pytest.fixture(autouse=True)
def own_rules(example: ExampleInstallation) -> Iterator[None]:
    """No tenant but the two, no rule and nothing remembered from the test before."""
    CLAIMERS.clear()
    yield
    example.rows("TRUNCATE turno.job_types")
    example.rows("DELETE FROM turno.tenants WHERE starts_with(slug, 'more')")
    example.rows("UPDATE turno.tenants SET weight = 1, cap = NULL, paused_at = NULL")
