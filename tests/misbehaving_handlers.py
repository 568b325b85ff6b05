"""Handlers that break the rules of handlers, and a few plain ones; `Faulty.how` names the deed."""

from __future__ import annotations

import ctypes
import logging
import math
import os
import signal
import sys
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tests.misdeeds.deed import DEEDS, FaultyPayload, write
from tests.misdeeds.processes import (
    become_another,
    block_the_loop,
    catastrophic_pattern,
    escape,
    exhaust_memory,
    fork_and_close,
    fork_and_leave,
    fork_twice_and_return,
    grow,
    leave_a_copy,
    leave_a_grandchild,
    look_for_the_escaped,
    loop_forever,
    print_much,
    stop_self,
    wait_with_a_process,
)
from tests.misdeeds.sessions import (
    change_the_adapters,
    change_the_modes,
    change_the_modes_and_give_up,
    dict_rows,
    keep_the_session,
    leave_settings,
    mess,
    session_state,
    use_a_kept_session,
)
from tests.misdeeds.steps import (
    checkpoint_until_signal,
    items,
    leave_the_batch_early,
    progress,
    resume,
    skip_the_context,
    wait_for_cancel,
    wait_for_checkpoint_stop,
    wait_for_company,
)
from tests.misdeeds.transactions import (
    begin_again,
    collide_at_commit,
    collide_once,
    commit_and_begin,
    commit_often,
    deadlock,
    deadlock_once,
    defer_a_refusal,
    end_own_backend,
    hold_a_lock,
    hold_savepoints,
    leave_aborted,
    listen_and_wait,
    raw_commit,
    raw_rollback,
    refused,
    release_savepoint,
    run_sql,
    run_sql_with_token,
    sleep_in_sql,
    transaction_id,
    wait_for_a_lock,
    wait_in_vain,
)
from turno.errors import PermanentFailure
from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import Cancel, Reschedule, RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID


class TwoArguments(Exception):
    """Pickles, but cannot be unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.two = second


def write_and_return(result: Any) -> Callable[[JobContext, FaultyPayload], Any]:
    def deed(job: JobContext, _payload: FaultyPayload) -> Any:
        write(job)
        return result

    return deed


def raising(error: Callable[[], BaseException]) -> Callable[[JobContext, FaultyPayload], None]:
    def deed(job: JobContext, _payload: FaultyPayload) -> None:
        write(job)
        raise error()

    return deed


def fail_then_reschedule(job: JobContext, _payload: FaultyPayload) -> Reschedule:
    if job.attempt < 3:
        raise ValueError("not yet")
    return Reschedule(after=3600)


# How often this process called a grouped handler for a job.
RUNS: Counter[UUID] = Counter()


# Callbacks of a test in the same process, called within a job, by the job's `text`.
HOOKS: dict[str, Callable[[JobContext], None]] = {}


def hook(job: JobContext, payload: FaultyPayload) -> dict[str, Any]:
    HOOKS[payload.text](job)
    return {}


def log_and_go_on(job: JobContext, payload: FaultyPayload) -> Any:
    """Log `number` lines by a logger of the application's and one by the job's, then run the deed in `text`."""
    write(job)
    for number in range(payload.number):
        logging.getLogger("shop.billing").info("line %d of attempt %d", number + 1, job.attempt)
    job.log.warning("token=abc123 was refused")
    return DEEDS[payload.text](job, payload)


DEEDS |= {
    "log": log_and_go_on,
    "ok": lambda _job, _payload: {"fine": True},
    "loop_forever": loop_forever,
    "block_the_loop": block_the_loop,
    "catastrophic_pattern": catastrophic_pattern,
    "sleep_in_sql": sleep_in_sql,
    "sys_exit_0": lambda _job, _payload: sys.exit(0),
    "os_exit_0": lambda _job, _payload: os._exit(0),
    "segfault": lambda _job, _payload: ctypes.string_at(0),
    "kill_self": lambda _job, _payload: os.kill(os.getpid(), signal.SIGKILL),
    "leave_a_grandchild": leave_a_grandchild,
    "escape": escape,
    "look_for_the_escaped": look_for_the_escaped,
    "fork_twice_and_return": fork_twice_and_return,
    "wait_with_a_process": wait_with_a_process,
    "exhaust_memory": exhaust_memory,
    "raw_commit": raw_commit,
    "raw_rollback": raw_rollback,
    "commit": refused("commit"),
    "rollback": refused("rollback"),
    "close": refused("close"),
    "leave_aborted": leave_aborted,
    "end_own_backend": end_own_backend,
    "unpicklable": raising(lambda: TwoArguments("one", "two")),
    "error": raising(lambda: ValueError("not today")),
    "permanent": raising(lambda: PermanentFailure("never again")),
    "nul_in_error": raising(lambda: ValueError("a\x00b\ud800")),
    "nan": write_and_return({"a": math.nan}),
    "nul": write_and_return({"a": "\x00"}),
    "surrogate": write_and_return({"a": "\ud800"}),
    "a_complex": write_and_return({"a": 1j}),
    "too_large": write_and_return({"a": "x" * 300_000}),
    "no_dict": write_and_return("done"),
    "reschedule_after": write_and_return(Reschedule(after=3600)),
    "reschedule_at": write_and_return(Reschedule(at=datetime(2100, 1, 1, tzinfo=UTC))),
    "cancel": write_and_return(Cancel("nothing to do")),
    "run_sql": run_sql,
    "run_sql_with_token": run_sql_with_token,
    "resume": resume,
    "wait_for_cancel": wait_for_cancel,
    "wait_for_checkpoint_stop": wait_for_checkpoint_stop,
    "items": items,
    "skip_the_context": skip_the_context,
    "leave_the_batch_early": leave_the_batch_early,
    "deadlock_once": deadlock_once,
    "session_state": session_state,
    "hold_a_lock": hold_a_lock,
    "deadlock": deadlock,
    "hold_savepoints": hold_savepoints,
    "listen_and_wait": listen_and_wait,
    "checkpoint_until_signal": checkpoint_until_signal,
    "wait_for_a_lock": wait_for_a_lock,
    "wait_for_company": wait_for_company,
    "huge_result": lambda _job, payload: {"x": "x" * (payload.number << 20)},
    "huge_error": raising(lambda: ValueError("x" * (200 << 20))),
    "commit_often": commit_often,
    "print_much": print_much,
    "fail_then_reschedule": fail_then_reschedule,
    "mess": mess,
    "keep_the_session": keep_the_session,
    "use_a_kept_session": use_a_kept_session,
    "change_the_adapters": change_the_adapters,
    "change_the_modes": change_the_modes,
    "change_the_modes_and_give_up": change_the_modes_and_give_up,
    "begin_again": begin_again,
    "leave_a_copy": leave_a_copy,
    "fork_and_close": fork_and_close,
    "fork_and_leave": fork_and_leave,
    "become_another": become_another,
    "pid": lambda _job, _payload: {"pid": os.getpid()},
    "grow": grow,
    "environment": lambda _job, payload: {"value": os.environ.get(payload.text)},
    "transaction": transaction_id,
    "hook": hook,
    "collide_once": collide_once,
    "progress": progress,
    "wait_in_vain": wait_in_vain,
    "stop_self": stop_self,
    "commit_and_begin": commit_and_begin,
    "defer_a_refusal": defer_a_refusal,
    "leave_settings": leave_settings,
    "collide_at_commit": collide_at_commit,
    "dict_rows": dict_rows,
    "release_savepoint": release_savepoint,
    "modules": lambda _job, _payload: {"modules": sorted(sys.modules)},
}


class Faulty(JobHandler[FaultyPayload]):
    """Do the named deed."""

    type = "faulty"
    retry = RetryPolicy(max_attempts=4, first=0, longest=0)
    timeout = 60.0

    def handle(self, job: JobContext, payload: FaultyPayload) -> dict[str, Any] | Reschedule | Cancel:
        """Do it."""
        answer: dict[str, Any] | Reschedule | Cancel = DEEDS[payload.how](job, payload)
        return answer


class FaultyHurried(Faulty):
    """The same with a second to do it in."""

    type = "faulty_hurried"
    timeout = 1.0


class FaultyHooked(Faulty):
    """The same, with a test's callbacks before and after each attempt."""

    type = "faulty_hooked"

    def before(self, job: JobContext) -> None:
        """Run the test's callback."""
        HOOKS["before"](job)

    def after(self, job: JobContext) -> None:
        """Run the test's callback."""
        HOOKS["after"](job)


class FaultyBrief(Faulty):
    """The same; its transactions may stay open for a second and a half."""

    type = "faulty_brief"
    longest_transaction = 1.5


class FaultySmall(Faulty):
    """The same with little memory."""

    type = "faulty_small"
    memory_mb = 64


class FaultyBatched(Faulty):
    """The same; a `text` is the id of a customer to make first."""

    type = "faulty_batched"

    def before(self, job: JobContext) -> None:
        """Count the run."""
        RUNS[job.job_id] += 1

    def handle(self, job: JobContext, payload: FaultyPayload) -> dict[str, Any] | Reschedule | Cancel:
        """Make the customer, then do it."""
        if payload.text:
            job.connection.execute(
                "INSERT INTO customers (id, company_name, tax_condition, country)"
                " VALUES (%s, 'Faulty', 'registered', 'batched')",
                (payload.text,),
            )
        return super().handle(job, payload)


class FaultyBatchedHurried(FaultyBatched):
    """The same with a second for each."""

    type = "faulty_batched_hurried"
    timeout = 1.0


class FaultyAlone(FaultyBatched):
    """The same, each with a separate commit."""

    type = "faulty_alone"
    alone = True


class FaultyOnce(Faulty):
    """The same, never retried after an error."""

    type = "faulty_once"
    retry = RetryPolicy.never()


class FaultyHealthy(Faulty):
    """The same, with attempts that count as healthy at once."""

    type = "faulty_healthy"
    retry = RetryPolicy(max_attempts=4, first=0, longest=0, healthy_after=0)


REGISTRY = Registry(
    {
        "faulty_healthy": "tests.misbehaving_handlers:FaultyHealthy",
        "faulty": "tests.misbehaving_handlers:Faulty",
        "faulty_hurried": "tests.misbehaving_handlers:FaultyHurried",
        "faulty_hooked": "tests.misbehaving_handlers:FaultyHooked",
        "faulty_brief": "tests.misbehaving_handlers:FaultyBrief",
        "faulty_small": "tests.misbehaving_handlers:FaultySmall",
        "faulty_batched": "tests.misbehaving_handlers:FaultyBatched",
        "faulty_batched_hurried": "tests.misbehaving_handlers:FaultyBatchedHurried",
        "faulty_alone": "tests.misbehaving_handlers:FaultyAlone",
        "faulty_once": "tests.misbehaving_handlers:FaultyOnce",
        "hurried_sync": "tests.hurried_sync:HurriedSync",
        "stopped_sync": "tests.hurried_sync:StoppedSync",
        "raise_prices": "tests.raise_prices:RaisePrices",
        "batch_invoicing": "handlers.batch_invoicing:BatchInvoicing",
    }
)
