"""The link between a worker and its database: slow, cut to pieces, reset, or alive and silent."""

import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.faults.own_server import own_world
from tests.faults.tcp_proxy import bad_link, stall
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Odd
from turno.servers.wait import wait_until
from turno.tenancy.identity.connections import AnswerOverdue, TimeoutConnection
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import service_session


@pytest.fixture(scope="module")
def module_tcp_world(
    tmp_path_factory: pytest.TempPathFactory, postgres_template: Path
) -> Iterator[ExampleInstallation]:
    with own_world(tmp_path_factory.mktemp("tcp"), postgres_template, tcp=True) as (_, world):
        yield world


@pytest.fixture
def tcp_world(module_tcp_world: ExampleInstallation) -> ExampleInstallation:
    module_tcp_world.forget()
    module_tcp_world.rows("DELETE FROM customers WHERE company_name = 'Odd'")
    module_tcp_world.backend = "pool"
    return module_tcp_world


def port_of(world: ExampleInstallation) -> int:
    port = urlsplit(world.url).port
    assert port is not None
    return port


def through(world: ExampleInstallation, port: int) -> str:
    return world.url.replace(f":{port_of(world)}/", f":{port}/")


@pytest.mark.parametrize("how", ["latency", "slice", "reset"])
def test_bad_link_delays_jobs_without_loss_or_double(tcp_world: ExampleInstallation, how: str) -> None:
    jobs = [tcp_world.enqueue({"how": "resume", "text": "ok", "number": 12}, handler=Odd)]
    jobs += [tcp_world.enqueue({"how": "ok"}, handler=Odd) for _ in range(5)]
    with bad_link(port_of(tcp_world), how) as (port, _):
        pool = tcp_world.start_pool(
            DATABASE_URL=through(tcp_world, port), TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.5"
        )

        def ended() -> bool:
            # A refused login waits half a minute; here that time passes faster.
            tcp_world.time_passes()
            return all(tcp_world.job(job_id)["finished_at"] for job_id in jobs)

        assert wait_until(ended, within=40, every=0.2)
        assert pool.poll() is None
    assert {tcp_world.job(job_id)["status"] for job_id in jobs} == {"completed"}
    assert len(tcp_world.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 12
    assert len(tcp_world.rows("SELECT 1 FROM notifications")) == len(jobs)


def test_a_silent_peer_is_given_up_though_its_kernel_answers(tcp_world: ExampleInstallation) -> None:
    with bad_link(port_of(tcp_world)) as (port, link):
        logins = Logins(through(tcp_world, port), tcp_world.logins.master_key)
        session = service_session(logins, logins.engine, application="test")
        session.answer_within = 0.5
        session.execute("SELECT 1")
        stall(link)
        with pytest.raises(AnswerOverdue):
            session.execute("SELECT 1")
        assert session.closed


def test_answer_is_awaited_exactly_until_its_timeout(tcp_world: ExampleInstallation) -> None:
    conninfo = tcp_world.url
    with TimeoutConnection.connect(conninfo, autocommit=True) as session:
        session.answer_within = 0.5
        with pytest.raises(AnswerOverdue):
            session.execute("SELECT pg_sleep(5)")
        assert session.closed
    with TimeoutConnection.connect(conninfo, autocommit=True) as session:
        session.answer_within = 5
        assert session.execute("SELECT pg_sleep(0.6) IS NULL").fetchone() == (False,)


def test_worker_behind_silent_peer_ends_jobs_and_resumes(tcp_world: ExampleInstallation) -> None:
    job_id = tcp_world.enqueue({"how": "loop_forever"}, handler=Odd)
    with bad_link(port_of(tcp_world)) as (port, link):
        pool = tcp_world.start_pool(
            DATABASE_URL=through(tcp_world, port),
            TURNO_HEARTBEAT_SECONDS="0.2",
            TURNO_DEAD_AFTER_SECONDS="0.5",
            TURNO_LOG_LEVEL="INFO",
        )
        assert wait_until(lambda: tcp_world.job(job_id)["status"] == "running", within=30)
        stall(link)
        assert pool.stdout is not None
        assert any("heartbeat failed" in line for line in pool.stdout)
        assert pool.poll() is None
        link.send_signal(signal.SIGCONT)
        # It hands the job back, unless a sweep, just as late, was faster than its heartbeat and has buried it.
        handed_back, buried = "could not reach the database for too long; now pending", "others have its jobs; it stops"
        last = next(line for line in pool.stdout if handed_back in line or buried in line)
        if handed_back in last:
            assert tcp_world.job(job_id)["crashes"] == 0
        tcp_world.cancel(job_id)
        later = tcp_world.enqueue({"how": "ok"}, handler=Odd)

        def over() -> bool:
            return bool(tcp_world.job(later)["status"] == "completed")

        assert wait_until(lambda: over() or pool.poll() is not None, within=30)
        if pool.poll() is not None:
            tcp_world.start_pool()  # as its manager does
        assert wait_until(over, within=30)
