"""A database that crashes, goes away, ends sessions, has no room: promises hold, the rest is tried again."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import monotonic

import psycopg
import pytest

from cli.demo.web import DemoWeb
from cli.servers.embedded_postgres import Cluster
from cli.servers.free_port import free_port
from tests.faults.own_server import own_example, reconnect
from tests.faults.steady_client import steady_client
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.client import ClientError
from turno.maintenance.tasks import MaintenanceFailed
from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.session import SERVICE_TIMEOUTS, service_session
from turno.testing.wait import wait_until

MOST = 40


@pytest.fixture(scope="module")
def module_own(
    tmp_path_factory: pytest.TempPathFactory, postgres_template: Path
) -> Iterator[tuple[Cluster, ExampleInstallation]]:
    folder = tmp_path_factory.mktemp("own")
    with own_example(folder, postgres_template, durable=True, max_connections=MOST) as (cluster, example):
        yield cluster, example
        reconnect(example)


@pytest.fixture
def own(module_own: tuple[Cluster, ExampleInstallation]) -> tuple[Cluster, ExampleInstallation]:
    _, example = module_own
    reconnect(example)
    example.reset()
    example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    example.backend = "pool"
    example.extra.clear()
    return module_own


@pytest.fixture
def web(own: tuple[Cluster, ExampleInstallation]) -> Iterator[DemoWeb]:
    _, example = own
    port = free_port()
    environment = example.environment | {"TURNO_WEB_BIND": f"127.0.0.1:{port}", "TURNO_SHUTDOWN_GRACE_SECONDS": "1"}
    web = DemoWeb(port=port, environment=environment, log=example.folder / "web.log")
    web.start()
    yield web
    web.stop()


def ask(example: ExampleInstallation, web: DemoWeb) -> tuple[int, float | None]:
    """Submit a batch; return the status and the seconds of Retry-After."""
    try:
        example.client(web).submit("batch_invoicing", {"order_ids": [1]})
    except ClientError as error:
        return error.status or 0, error.retry_after
    return 202, None


def all_completed(example: ExampleInstallation) -> bool:
    example.time_passes()
    return example.rows("SELECT DISTINCT status FROM background_jobs") == [{"status": "completed"}]


def test_accepted_jobs_survive_server_crashes_once(
    own: tuple[Cluster, ExampleInstallation],
) -> None:
    cluster, example = own
    pool = example.start_pool(TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.5")
    assert wait_until(lambda: example.rows("SELECT 1 FROM turno.workers") != [], within=20)
    # Read all the while, or a full pipe would stop the worker.
    reader = Thread(target=pool.communicate)
    reader.start()
    with steady_client(example) as client:
        for _ in range(3):
            client.wait_for_more()
            cluster.restart_immediate()
    reconnect(example)
    assert wait_until(lambda: all_completed(example), within=40, every=0.2), pool.poll()
    assert pool.poll() is None
    client.assert_none_lost_or_doubled()
    pool.kill()
    reader.join()


def test_database_outage_is_reported_by_web_and_awaited(own: tuple[Cluster, ExampleInstallation], web: DemoWeb) -> None:
    cluster, example = own
    job_id = example.enqueue({"how": "resume", "text": "ok", "number": 300}, handler=Faulty)
    # Long enough for a heartbeat on a busy machine, and shorter than the outage.
    dead_after = 3.0
    pool = example.start_pool(TURNO_HEARTBEAT_SECONDS="0.2", TURNO_DEAD_AFTER_SECONDS=str(dead_after))
    assert wait_until(lambda: example.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
    output: list[str] = []

    def listen() -> None:
        for line in pool.stdout or ():
            output.append(line)  # noqa: PERF402 - seen line by line by the test

    reader = Thread(target=listen)
    reader.start()
    cluster.kill()
    try:
        status, retry_after = ask(example, web)
        assert (status, retry_after is not None) == (503, True)
        began, spoken = monotonic(), len(output)
        assert wait_until(lambda: len(output) >= spoken + 8, within=20)
        assert monotonic() - began > 0.5, output  # it rests between two tries
        assert wait_until(lambda: monotonic() - began > dead_after, within=20)
        assert pool.poll() is None
    finally:
        cluster.start()
    reconnect(example)
    assert wait_until(lambda: ask(example, web)[0] == 202, within=10, every=0.1)
    example.rows("DELETE FROM turno.tickets WHERE type = 'batch_invoicing'")
    example.rows("DELETE FROM background_jobs WHERE type = 'batch_invoicing'")
    assert wait_until(lambda: all_completed(example), within=30, every=0.2)
    assert (example.job(job_id)["crashes"], example.job(job_id)["errors"]) == (0, 0)
    assert len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 300
    assert pool.poll() is None
    pool.kill()
    reader.join()


def test_refused_heartbeats_on_standby_cost_no_worker(
    own: tuple[Cluster, ExampleInstallation],
) -> None:
    cluster, example = own
    job_id = example.enqueue({"how": "wait_for_company"}, handler=Faulty)
    company = example.folder / "standby"
    company.mkdir()
    pool = example.start_pool(TURNO_HEARTBEAT_SECONDS="0.2", TURNO_DEAD_AFTER_SECONDS="60", MEET=str(company))
    assert wait_until((company / str(job_id)).exists, within=20)
    output: list[str] = []
    reader = Thread(target=lambda: output.extend(pool.stdout or ()))
    reader.start()
    # Demoted: the address still leads to it, it answers, and it may not write.
    cluster.kill()
    (signal_file := cluster.data / "standby.signal").touch()
    cluster.files.identity().own(signal_file)
    cluster.start()
    assert wait_until(
        lambda: sum("heartbeat failed" in line and "read-only" in line for line in output) >= 3, within=20
    )
    assert pool.poll() is None
    with psycopg.connect(example.url, autocommit=True) as primary:
        assert primary.execute("SELECT pg_promote()").fetchone() == (True,)
    reconnect(example)
    (company / "go").touch()
    assert wait_until(lambda: all_completed(example), within=30, every=0.2)
    assert example.job(job_id)["crashes"] == 0
    assert pool.poll() is None
    pool.kill()
    reader.join()


def test_sessions_ended_at_random_cost_no_job_and_double_nothing(own: tuple[Cluster, ExampleInstallation]) -> None:
    _, example = own
    # A session ended is an error of the attempt that had it; here none runs out of attempts.
    jobs = [example.enqueue({"how": "resume", "text": "ok", "number": 40}, handler=Faulty, max_attempts=1000)]
    jobs += [example.enqueue({"how": "ok"}, handler=Faulty, max_attempts=1000) for _ in range(20)]
    pool = example.start_pool(TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.5")
    assert wait_until(lambda: example.rows("SELECT 1 FROM background_job_checkpoints") != [], within=20)
    output: list[str] = []
    reader = Thread(target=lambda: output.extend(pool.communicate()[0].splitlines()[-40:]))
    reader.start()
    with steady_client(example):
        ended = 0

        def end_session() -> bool:
            nonlocal ended
            ended += len(example.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name LIKE 'turno-%%' ORDER BY random() LIMIT 1"
            ))  # fmt: skip
            assert pool.poll() is None, output
            return ended >= 30

        assert wait_until(end_session, within=60, every=0.1)
    assert wait_until(lambda: all_completed(example), within=60, every=0.2)
    assert len(example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 40
    assert len(example.rows("SELECT 1 FROM notifications")) == len(example.rows("SELECT 1 FROM background_jobs"))
    assert {example.job(job_id)["crashes"] for job_id in jobs} == {0}
    assert pool.poll() is None
    pool.send_signal(signal.SIGTERM)
    reader.join()
    assert pool.returncode == 0
    left = "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'turno-%%'"
    assert wait_until(lambda: example.rows(left) == [], within=10)


def take_all(example: ExampleInstallation, taken: list[TimeoutConnection]) -> None:
    """Take every connection there is, as the web's login: it may not use the superuser's reserve."""
    while True:
        try:
            taken.append(service_session(example.logins, example.logins.web, application="hog"))
        except psycopg.OperationalError:
            assert taken
            return


def test_exhausted_connections_are_reported_and_jobs_wait(
    own: tuple[Cluster, ExampleInstallation], web: DemoWeb
) -> None:
    _, example = own
    job_id = example.enqueue({"how": "ok"}, handler=Faulty)
    taken: list[TimeoutConnection] = []
    statuses: list[int] = []

    def is_refused() -> bool:
        # An ended session frees its slot after it has left pg_stat_activity: the web may get it.
        example.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turno-web'")
        take_all(example, taken)
        status, retry_after = ask(example, web)
        statuses.append(status)
        return status == 503 and retry_after is not None

    try:
        take_all(example, taken)
        assert wait_until(is_refused, within=20, every=0.1)
        assert set(statuses) <= {202, 503}
        assert "cannot reach PostgreSQL" in example.start_pool().communicate(timeout=20)[0]
        assert example.job(job_id)["status"] == "pending"
    finally:
        for session in taken:
            session.close()
    assert wait_until(lambda: ask(example, web)[0] == 202, within=10, every=0.1)
    example.start_pool()
    assert wait_until(lambda: example.job(job_id)["status"] == "completed", within=20)


def test_stopped_process_loses_locks_when_job_is_taken_back(own: tuple[Cluster, ExampleInstallation]) -> None:
    _, example = own
    job_id = example.enqueue(
        {"how": "hold_a_lock", "text": "UPDATE customers SET country = country WHERE id = 'ALFKI'"}, handler=Faulty
    )
    pool = example.start_pool()
    locked = "SELECT 1 FROM customers WHERE id = 'ALFKI' FOR UPDATE NOWAIT"

    def is_locked() -> bool:
        try:
            example.rows(locked)
        except psycopg.errors.LockNotAvailable:
            return True
        return False

    assert example.rows("SELECT 1 FROM customers WHERE id = 'ALFKI'")
    assert wait_until(is_locked, within=20)
    for pid in (*children(pool.pid), pool.pid):
        os.kill(pid, signal.SIGSTOP)
    example.rows("UPDATE turno.workers SET alive_at = alive_at - interval '1 hour'")
    assert is_locked()
    with suppress(MaintenanceFailed):  # the frozen maintenance process may hold the locks of other tasks
        example.sweep()
    assert not is_locked()
    assert example.job(job_id)["status"] == "pending"


def test_service_stopped_in_transaction_loses_its_locks(
    own: tuple[Cluster, ExampleInstallation],
) -> None:
    _, example = own
    assert 0 < int(SERVICE_TIMEOUTS["idle_in_transaction_session_timeout"]) <= 15_000
    conninfo = example.logins.conninfo(
        example.logins.web,
        search_path="turno,pg_temp",
        application="stopped",
        timeouts=SERVICE_TIMEOUTS | {"idle_in_transaction_session_timeout": "300"},
    )
    session = psycopg.connect(conninfo)
    session.execute("SELECT 1")
    holding = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'stopped' AND state = 'idle in transaction'"
    assert example.rows(holding)
    assert wait_until(lambda: example.rows(holding) == [], within=10)
    with pytest.raises(psycopg.errors.IdleInTransactionSessionTimeout):
        session.execute("SELECT 1")
    session.close()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
