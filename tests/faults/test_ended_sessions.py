"""Sessions that end while unused: no job pays for it, and no worker."""

import ctypes
import signal
from subprocess import Popen
from typing import Any, NoReturn

import psycopg
import pytest
from psycopg.errors import LockNotAvailable, ProgramLimitExceeded, ReadOnlySqlTransaction, TooManyConnections

from tests.attempt_in_process import claim_in_process
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Faulty
from turno.errors import NotStarted
from turno.runner import exit_codes, processes
from turno.runner.child_main import ChildConfig
from turno.tenancy.identity.session import LoginRefused
from turno.testing.wait import wait_until
from turno.worker import crash_reasons
from turno.worker.fork_server import ForkServer

BUSY = "its tenant's data was locked, or the database had no room"
SESSIONS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE %s"


def end_sessions(example: ExampleInstallation, of: str) -> int:
    return len(example.rows(f"SELECT pg_terminate_backend(pid, 5000) {SESSIONS}", of))


@pytest.fixture
def pool(example: ExampleInstallation) -> Popen[str]:
    example.faulty, example.backend = True, "pool"
    return example.start_pool(TURNO_MIN_CHILDREN="0", TURNO_MAX_CHILDREN="1", TURNO_LOG_LEVEL="ERROR")


def test_session_ended_between_jobs_costs_nothing(example: ExampleInstallation, pool: Popen[str]) -> None:
    first = example.enqueue({"how": "ok"}, handler=Faulty)
    assert wait_until(lambda: example.job(first)["status"] == "completed", within=20)
    assert end_sessions(example, "turno-handler%") == 1
    second = example.enqueue({"how": "ok"}, handler=Faulty)
    assert wait_until(lambda: example.job(second)["status"] == "completed", within=20)
    job = example.job(second)
    assert (job["attempt"], job["errors"], job["crashes"]) == (1, 0, 0)
    assert pool.poll() is None


def test_pool_with_ended_sessions_runs_waiting_jobs(example: ExampleInstallation, pool: Popen[str]) -> None:
    assert wait_until(lambda: len(example.rows(f"SELECT 1 {SESSIONS}", "turno-%")) > 2, within=20)
    # Stopped meanwhile, so that it meets the lost hints and the waiting job, for which it has to fork, in one turn.
    pool.send_signal(signal.SIGSTOP)
    jobs = [example.enqueue({"how": "ok"}, handler=Faulty) for _ in range(3)]
    assert end_sessions(example, "turno-%")
    pool.send_signal(signal.SIGCONT)
    assert wait_until(lambda: {example.job(job)["status"] for job in jobs} == {"completed"}, within=20)
    assert pool.poll() is None


@pytest.mark.parametrize(
    ("error", "code", "cause"),
    [
        (psycopg.OperationalError("lost"), exit_codes.DATABASE_AWAY, "the database could not be reached"),
        (ReadOnlySqlTransaction("a standby"), exit_codes.DATABASE_AWAY, "the database could not be reached"),
        (LoginRefused("the password"), exit_codes.LOGIN_REFUSED, "the tenant's login was refused"),
        (NotStarted("a lock"), exit_codes.DATABASE_BUSY, BUSY),
        (LockNotAvailable("55P03"), exit_codes.DATABASE_BUSY, BUSY),
        (TooManyConnections("53300"), exit_codes.DATABASE_BUSY, BUSY),
        (ProgramLimitExceeded("54000"), exit_codes.UNRECORDED, "the database refused to record how it went"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_child_without_result_exits_by_code_of_the_cause(
    example: ExampleInstallation, error: Exception, code: int, cause: str
) -> None:
    def run(*_: Any) -> NoReturn:
        raise error

    example.faulty = True
    claim = claim_in_process(example, example.enqueue({"how": "ok"}, handler=Faulty))
    forks = ForkServer(ChildConfig(run=run, jobs=1))
    try:
        child = forks.fork(lambda claim, _: claim)
        child.assign((claim,))
        assert child.reap() == code
    finally:
        forks.close()
        adopt_no_orphans()
    assert crash_reasons.of_end(code) == cause


def adopt_no_orphans() -> None:
    """Restore this process's state from before its fork server: no other test counts on orphans that come here."""
    ctypes.CDLL(None).prctl(processes.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
