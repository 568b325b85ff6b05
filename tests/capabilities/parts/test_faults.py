"""A split batch neither loses nor doubles an order when processes are killed while it is split and shared."""

from collections.abc import Iterator

import pytest

from cli.demo.invoices import InvoiceIntegrity, check_invoices
from tests.installation import ExampleInstallation
from tests.small_parts import PART
from turno.testing.invariants import judge_of
from turno.testing.wait import wait_until


@pytest.fixture
def split(northwind: ExampleInstallation) -> Iterator[ExampleInstallation]:
    registry, backend = northwind.registry, northwind.backend
    northwind.registry = "tests.small_parts:small_parts"
    yield northwind
    northwind.registry, northwind.backend = registry, backend


@pytest.mark.parametrize(
    "crash_at",
    [
        pytest.param("splitting", marks=pytest.mark.deep),
        pytest.param("split", marks=pytest.mark.deep),
        pytest.param("splitting:both", marks=pytest.mark.deep),
        pytest.param("split:both", marks=pytest.mark.deep),
        pytest.param("completing:self:2", marks=pytest.mark.deep),
    ],
)
def test_kills_invoice_each_order_once(split: ExampleInstallation, crash_at: str) -> None:
    orders = split.order_ids()
    job_id = split.enqueue({"order_ids": orders})
    split.work(job_id, crash_at=crash_at)

    def ended() -> bool:
        if split.job(job_id)["finished_at"]:
            return True
        split.time_passes()
        split.sweep()
        return False

    assert wait_until(ended, within=90, every=0.3)
    assert_invoiced_once(split, job_id)


def test_a_pool_shares_a_batch(split: ExampleInstallation) -> None:
    split.backend = "pool"
    job_id = split.enqueue({"order_ids": split.order_ids()})
    split.start_pool(TURNO_MIN_CHILDREN="2", TURNO_MAX_CHILDREN="2")
    assert wait_until(lambda: split.job(job_id)["finished_at"] is not None, within=60)
    assert_invoiced_once(split, job_id)
    # A child runs its parts one after another, so two that overlap ran in two children.
    overlapping = """
        SELECT FROM background_job_attempts a JOIN background_job_attempts b ON a.job_id < b.job_id
        WHERE %s NOT IN (a.job_id, b.job_id) AND a.started_at < b.finished_at AND b.started_at < a.finished_at
        """
    assert split.rows(overlapping, job_id) != []


def assert_invoiced_once(example: ExampleInstallation, job_id: object) -> None:
    job = example.find_job(job_id)  # type: ignore[arg-type]
    orders = example.order_ids()
    assert job["status"] == "completed", job
    assert set(job["result"]["totals"]) == set(job["result"]["net_totals"])
    assert job["result"] | {"net_totals": {}, "totals": {}} == {
        "invoiced": len(orders),
        "failed": 0,
        "skipped": 0,
        "net_totals": {},
        "totals": {},
    }
    assert len(example.rows("SELECT FROM background_job_parts")) == -(-len(orders) // PART)
    assert [row["order_id"] for row in example.rows("SELECT order_id FROM invoices ORDER BY order_id")] == orders
    assert check_invoices(example.admin) == InvoiceIntegrity(0, 0, 0)
    (progress,) = example.rows("SELECT done, failed, total FROM background_job_progress WHERE job_id = %s", job_id)
    assert progress == {"done": len(orders), "failed": 0, "total": len(orders)}
    assert [row["job_id"] for row in example.rows("SELECT job_id FROM notifications")] == [job_id]
    with judge_of(example.url, example.one) as judge:
        assert judge.broken() == []
