"""Workers that are killed within an authorisation, seen to end or not: each invoice is authorised once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fiscal_branch import FiscalBranch, fiscal_branch
from tests.installation import ExampleInstallation
from turno.testing.wait import wait_until

SEVERAL = 4


@pytest.fixture
def branch(example: ExampleInstallation) -> Iterator[FiscalBranch]:
    example.backend = "pool"
    with fiscal_branch(example) as branch:
        yield branch


@pytest.mark.deep
@pytest.mark.parametrize("death", ["intended:both:2", "called:both:2", "settled:both:2"])
def test_killed_authorisation_worker_loses_nothing(branch: FiscalBranch, death: str) -> None:
    example = branch.example
    job_id = branch.enqueue(*branch.invoices(SEVERAL))
    pool = example.start_pool(TURNO_MAX_CHILDREN="1", TURNO_CRASH_AT=death)
    assert wait_until(lambda: pool.poll() is not None, within=30)
    pool.communicate()
    # Longer ago than a request can take effect, by the database's clock.
    example.rows(
        "UPDATE external_effects SET intended_at = intended_at - interval '2 minutes' WHERE state = 'intended'"
    )
    example.time_passes()
    example.sweep()
    example.time_passes()
    example.start_pool(TURNO_MAX_CHILDREN="1")
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=30)
    granted = branch.granted()
    assert [voucher.number for voucher in granted] == list(range(1, SEVERAL + 1))
    assert branch.codes() == {voucher.number: voucher.cae for voucher in granted}
