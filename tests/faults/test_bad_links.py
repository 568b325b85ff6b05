"""The link between a worker and its database: slow, cut to pieces, reset, or alive and silent."""

import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.faults.own_server import own_example
from tests.faults.tcp_proxy import bad_link, stall
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.tenancy.identity.connections import AnswerOverdue, TimeoutConnection
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until


@pytest.fixture(scope="module")
def module_tcp_example(
    tmp_path_factory: pytest.TempPathFactory, postgres_template: Path
) -> Iterator[ExampleInstallation]:
    with own_example(tmp_path_factory.mktemp("tcp"), postgres_template, tcp=True) as (_, example):
        yield example


@pytest.fixture
def tcp_example(module_tcp_example: ExampleInstallation) -> ExampleInstallation:
    module_tcp_example.reset()
    module_tcp_example.rows("DELETE FROM customers WHERE company_name = 'Faulty'")
    module_tcp_example.backend = "pool"
    return module_tcp_example


def port_of(example: ExampleInstallation) -> int:
    port = urlsplit(example.url).port
    assert port is not None
    return port


def through(example: ExampleInstallation, port: int) -> str:
    return example.url.replace(f":{port_of(example)}/", f":{port}/")


@pytest.mark.parametrize("how", ["latency", "slice", "reset"])
def test_bad_link_delays_jobs_without_loss_or_double(tcp_example: ExampleInstallation, how: str) -> None:
    jobs = [tcp_example.enqueue({"how": "resume", "text": "ok", "number": 12}, handler=Faulty)]
    jobs += [tcp_example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(5)]
    with bad_link(port_of(tcp_example), how) as (port, _):
        pool = tcp_example.start_pool(
            DATABASE_URL=through(tcp_example, port), TURNO_MAX_CHILDREN="2", TURNO_HEARTBEAT_SECONDS="0.5"
        )

        def ended() -> bool:
            # A refused login waits half a minute; here that time passes faster.
            tcp_example.time_passes()
            return all(tcp_example.job(job_id)["finished_at"] for job_id in jobs)

        assert wait_until(ended, within=40, every=0.2)
        assert pool.poll() is None
    assert {tcp_example.job(job_id)["status"] for job_id in jobs} == {"completed"}
    assert len(tcp_example.rows("SELECT 1 FROM customers WHERE country = 'counted'")) == 12
    assert len(tcp_example.rows("SELECT 1 FROM notifications")) == len(jobs)


def test_a_silent_peer_is_given_up_though_its_kernel_answers(tcp_example: ExampleInstallation) -> None:
    with bad_link(port_of(tcp_example)) as (port, link):
        logins = Logins(through(tcp_example, port), tcp_example.logins.master_key)
        session = service_session(logins, logins.engine, application="test")
        session.answer_within = 0.5
        session.execute("SELECT 1")
        stall(link)
        with pytest.raises(AnswerOverdue):
            session.execute("SELECT 1")
        assert session.closed


def test_answer_is_awaited_exactly_until_its_timeout(tcp_example: ExampleInstallation) -> None:
    conninfo = tcp_example.url
    with TimeoutConnection.connect(conninfo, autocommit=True) as session:
        session.answer_within = 0.5
        with pytest.raises(AnswerOverdue):
            session.execute("SELECT pg_sleep(5)")
        assert session.closed
    with TimeoutConnection.connect(conninfo, autocommit=True) as session:
        session.answer_within = 5
        assert session.execute("SELECT pg_sleep(0.6) IS NULL").fetchone() == (False,)


def test_worker_behind_silent_peer_ends_jobs_and_resumes(tcp_example: ExampleInstallation) -> None:
    job_id = tcp_example.enqueue({"how": "loop_forever"}, handler=Faulty)
    with bad_link(port_of(tcp_example)) as (port, link):
        pool = tcp_example.start_pool(
            DATABASE_URL=through(tcp_example, port),
            TURNO_HEARTBEAT_SECONDS="0.2",
            TURNO_DEAD_AFTER_SECONDS="0.5",
            TURNO_LOG_LEVEL="INFO",
        )
        assert wait_until(lambda: tcp_example.job(job_id)["status"] == "running", within=30)
        stall(link)
        assert pool.stdout is not None
        assert any("heartbeat failed" in line for line in pool.stdout)
        assert pool.poll() is None
        link.send_signal(signal.SIGCONT)
        # It hands the job back, unless a sweep, just as late, was faster than its heartbeat and has buried it.
        handed_back, buried = "could not reach the database for too long; now pending", "others have its jobs; it stops"
        last = next(line for line in pool.stdout if handed_back in line or buried in line)
        if handed_back in last:
            assert tcp_example.job(job_id)["crashes"] == 0
        tcp_example.cancel(job_id)
        later = tcp_example.enqueue({"how": "ok"}, handler=Faulty)

        def over() -> bool:
            return bool(tcp_example.job(later)["status"] == "completed")

        assert wait_until(lambda: over() or pool.poll() is not None, within=30)
        if pool.poll() is not None:
            tcp_example.start_pool()  # as its manager does
        assert wait_until(over, within=30)
