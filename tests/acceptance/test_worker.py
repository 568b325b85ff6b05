"""The real worker as a process: one job, then the waiting jobs, then nothing left."""

import signal

import pytest

from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.testing.wait import wait_until


def test_a_spawned_worker_invoices_a_batch(example: ExampleInstallation) -> None:
    orders = example.order_ids()
    job_id = example.enqueue({"order_ids": orders, "point_of_sale": 1})
    log = example.work(job_id)
    job = example.job(job_id)
    assert job["status"] == "completed", log
    assert job["result"]["invoiced"] == len(orders)
    assert example.ticket(job_id) is None
    assert example.rows("SELECT 1 FROM turno.workers") == []


def test_bad_order_is_recorded_and_the_rest_is_invoiced(example: ExampleInstallation) -> None:
    first, second, third, *_ = example.order_ids()
    example.work(example.enqueue({"order_ids": [second]}))
    job_id = example.enqueue({"order_ids": [first, second, 999_999, third]})
    log = example.work(job_id)
    job = example.job(job_id)
    assert job["status"] == "completed", log
    assert (job["result"]["invoiced"], job["result"]["failed"]) == (2, 2)
    errors = example.rows("SELECT key, error FROM background_job_items WHERE job_id = %s AND state = 'failed'", job_id)
    assert {row["key"]: row["error"]["class"] for row in errors} == {
        str(second): "AlreadyInvoiced",
        "999999": "UnknownOrder",
    }
    (notification,) = example.rows("SELECT * FROM notifications WHERE job_id = %s", job_id)
    assert (notification["user_id"], notification["kind"]) == ("ana", "completed")
    assert (notification["data"]["done"], notification["data"]["failed"]) == (2, 2)


def test_retry_of_failed_items_makes_a_linked_job(example: ExampleInstallation) -> None:
    first, second, *_ = example.order_ids()
    job_id = example.enqueue({"order_ids": [first, second, 999_999]})
    example.work(job_id)
    example.rows(
        "INSERT INTO orders (id, customer_id, ordered_on, currency)"
        " SELECT 999999, customer_id, ordered_on, currency FROM orders WHERE id = %s",
        first,
    )
    example.rows(
        "INSERT INTO order_lines SELECT 999999, line_no, product_id, quantity, unit_price, discount"
        " FROM order_lines WHERE order_id = %s",
        first,
    )
    try:
        answer = example.retry(job_id)
        assert answer["verdict"] == "accepted"
        again = example.retry(job_id)
        assert (again["job_id"], again["verdict"]) == (answer["job_id"], "replayed")
        log = example.work(answer["job_id"])
        again = example.job(answer["job_id"])
        assert again["status"] == "completed", log
        assert again["parent_id"] == job_id
        assert (again["result"]["invoiced"], again["result"]["failed"], again["result"]["skipped"]) == (1, 0, 2)
        (progress,) = example.rows("SELECT * FROM background_job_progress WHERE job_id = %s", again["id"])
        assert (progress["done"], progress["failed"], progress["total"]) == (1, 0, 1)
    finally:
        example.rows("TRUNCATE invoices, invoice_lines")
        example.rows("DELETE FROM order_lines WHERE order_id = 999999")
        example.rows("DELETE FROM orders WHERE id = 999999")


def test_one_worker_takes_jobs_of_every_tenant(example: ExampleInstallation) -> None:
    jobs = [(tenant, example.enqueue({"order_ids": [order]}, tenant=tenant))
            for tenant in example.tenants.values() for order in example.order_ids(tenant)[:3]]  # fmt: skip
    log = example.work(jobs[0][1])
    assert {example.job(job, tenant=tenant)["status"] for tenant, job in jobs} == {"completed"}, log


def test_two_workers_on_one_job_run_it_once(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": example.order_ids()})
    workers = [example.start_worker(job_id) for _ in range(4)]
    logs = [worker.communicate(timeout=60)[0] for worker in workers]
    assert example.job(job_id)["attempt"] == 1, logs
    assert len(example.rows("SELECT 1 FROM invoices")) == len(example.order_ids())


@pytest.mark.parametrize("how", ["kill_self", "error", "os_exit_0"])
def test_a_later_attempt_resumes_from_the_last_checkpoint(example: ExampleInstallation, how: str) -> None:
    example.faulty = True
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    job_id = example.enqueue({"how": "resume", "text": how, "number": 10}, handler=Faulty)
    log = example.work(job_id)
    assert example.job(job_id)["result"] == {"began_at": 5, "reached": 10}, log
    assert len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 10


def test_a_running_job_stops_at_its_next_look_when_cancelled(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "wait_for_cancel"}, handler=Faulty)
    worker = example.start_worker(job_id)
    assert wait_until(
        lambda: example.rows("SELECT 1 FROM background_job_progress WHERE job_id = %s", job_id) != [], within=20
    )
    assert example.cancel(job_id) == "requested"
    log, _ = worker.communicate(timeout=20)
    job = example.job(job_id)
    assert (job["status"], job["reason"]) == ("cancelled", "cancelled on request"), log


def test_sigterm_returns_job_at_checkpoint_uncounted(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "wait_for_checkpoint_stop"}, handler=Faulty)
    worker = example.start_worker(job_id)
    assert wait_until(
        lambda: example.rows("SELECT 1 FROM background_job_checkpoints WHERE job_id = %s", job_id) != [], within=20
    )
    worker.send_signal(signal.SIGTERM)
    log, _ = worker.communicate(timeout=20)
    job = example.job(job_id)
    assert (job["status"], job["errors"], job["crashes"], job["attempt"]) == ("pending", 0, 0, 1), log
    assert worker.returncode == 0
    log = example.work(job_id)
    job = example.job(job_id)
    assert job["status"] == "completed", log
    assert job["result"]["resumed_from"] >= 1


def test_sigterm_takes_back_a_job_after_the_grace(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    worker = example.start_worker(job_id, TURNO_SHUTDOWN_GRACE_SECONDS="0.2")
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    worker.send_signal(signal.SIGTERM)
    log, _ = worker.communicate(timeout=20)
    job = example.job(job_id)
    assert (job["status"], job["errors"], job["crashes"]) == ("pending", 0, 0), log
    assert job["reason"] == "its worker was stopped"


def test_a_second_sigterm_ends_at_once(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "loop_forever"}, handler=Faulty)
    worker = example.start_worker(job_id)
    assert wait_until(lambda: example.job(job_id)["status"] == "running", within=20)
    worker.send_signal(signal.SIGTERM)
    # Two signals of a kind may merge; the second is sent once the child has received the first.
    assert worker.stdout is not None
    assert any("stopping" in line for line in worker.stdout)
    worker.send_signal(signal.SIGTERM)
    log, _ = worker.communicate(timeout=60)
    assert example.job(job_id)["status"] == "pending", log


def test_worker_runs_handler_without_flask_and_pika(example: ExampleInstallation) -> None:
    example.faulty = True
    job_id = example.enqueue({"how": "modules"}, handler=Faulty)
    log = example.work(job_id)
    loaded = set(example.job(job_id)["result"]["modules"])
    assert "psycopg" in loaded, log
    assert loaded & {"flask", "pika", "redis", "pydantic", "click", "dotenv"} == set()
