"""Sessions that end while nobody uses them: no job pays for it, and no worker."""

import signal
from subprocess import Popen
from typing import Any, NoReturn

import psycopg
import pytest

from app.work import causes, exit_codes
from app.work.child_process import Duty, fork_child
from cli.deadline import becomes_true
from tests.attempt_here import claim_here
from tests.odd_handlers import Odd
from tests.world import World

SESSIONS = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE %s"


def end_sessions(world: World, of: str) -> int:
    return len(world.rows(f"SELECT pg_terminate_backend(pid, 5000) {SESSIONS}", of))


@pytest.fixture
def pool(world: World) -> Popen[str]:
    world.odd, world.backend = True, "pool"
    return world.start_pool(POOL_MIN_CHILDREN="0", POOL_MAX_CHILDREN="1", LOG_LEVEL="ERROR")


def test_a_tenants_session_that_ended_between_two_jobs_costs_the_second_nothing(world: World, pool: Popen[str]) -> None:
    first = world.enqueue({"how": "ok"}, handler=Odd)
    assert becomes_true(lambda: world.job(first)["status"] == "completed", within=20)
    assert end_sessions(world, "turno-handler") == 1
    second = world.enqueue({"how": "ok"}, handler=Odd)
    assert becomes_true(lambda: world.job(second)["status"] == "completed", within=20)
    job = world.job(second)
    assert (job["attempt"], job["errors"], job["crashes"]) == (1, 0, 0)
    assert pool.poll() is None


def test_a_pool_whose_sessions_all_ended_goes_on_with_what_waits(world: World, pool: Popen[str]) -> None:
    assert becomes_true(lambda: len(world.rows(f"SELECT 1 {SESSIONS}", "turno-%")) > 2, within=20)
    # Stopped meanwhile, so that it meets the lost hints and the waiting job, for which it has to fork, in one turn.
    pool.send_signal(signal.SIGSTOP)
    jobs = [world.enqueue({"how": "ok"}, handler=Odd) for _ in range(3)]
    assert end_sessions(world, "turno-%")
    pool.send_signal(signal.SIGCONT)
    assert becomes_true(lambda: {world.job(job)["status"] for job in jobs} == {"completed"}, within=20)
    assert pool.poll() is None


def test_a_child_that_cannot_say_how_it_went_leaves_by_a_code_that_blames_no_job(world: World) -> None:
    def run(*_: Any) -> NoReturn:
        raise psycopg.OperationalError("the connection is lost")

    world.odd = True
    claim = claim_here(world, world.enqueue({"how": "ok"}, handler=Odd))
    child = fork_child(Duty(run=run, jobs=1), before=lambda: None)
    child.assign(((claim,),))
    code = child.reap()
    assert code == exit_codes.DATABASE_AWAY
    assert causes.of_end(code) == "the database could not be reached"
