"""Handlers that do what handlers should not, and a few plain ones; `Odd.how` names the deed."""

from __future__ import annotations

import ctypes
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import dict_row
from psycopg.types.string import TextLoader

from handlers.services.tax_authority import TaxAuthority
from handlers.taxpayer_sync import TaxpayerSync
from turno.errors import PermanentFailure
from turno.jobs.handler import JobContext, JobHandler
from turno.jobs.outcome import Cancel, Reschedule
from turno.jobs.registry import Registry
from turno.jobs.retry import RetryPolicy
from turno.runner import leftover_processes

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID


@dataclass(frozen=True, slots=True)
class OddPayload:
    """What to do, with a word and a number for it."""

    how: str
    text: str = ""
    number: int = 0


HOARD: list[bytearray] = []


class TwoArguments(Exception):
    """Pickles, but cannot be unpickled."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)
        self.two = two


def write(job: JobContext, country: str = "written") -> None:
    """Leave a trace in the tenant's business tables."""
    job.connection.execute(
        "INSERT INTO customers (id, company_name, tax_condition, country) VALUES (%s, 'Odd', 'registered', %s)",
        (f"ODD{job.attempt}", country),
    )


def loop_forever(_job: JobContext, _payload: OddPayload) -> None:
    while True:
        pass


def catastrophic_pattern(_job: JobContext, _payload: OddPayload) -> None:
    re.match(r"(a+)+$", "a" * 60 + "b")


def sleep_in_sql(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    job.connection.execute(f"SELECT pg_sleep({payload.number or 600})".encode())
    return {}


def leave_a_grandchild(_job: JobContext, payload: OddPayload) -> dict[str, Any]:
    # Silent, so that nobody who reads the worker's output to its end has to wait for it.
    quiet = subprocess.DEVNULL
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=quiet, stderr=quiet)
    return {"pid": child.pid, "text": payload.text}


def fork_twice_and_return(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Let one copy return and another end as `text` says, while this one goes on."""
    for copy in range(2):
        if os.fork() == 0:
            if copy:
                DEEDS[payload.text](job, payload)
            return {"copy": copy}
    while not leftover_processes.none() and any(not _ended(pid) for pid in leftover_processes.children()):
        time.sleep(0.01)
    write(job)
    return {"copy": None}


def _ended(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


ESCAPE = """
import os, sys, time
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.write(1, str(os.getpid()).encode())
os.close(1)
time.sleep(600)
"""


def escape(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Start a process that daemonises: twice forked, a session of its own; then do what `text` names."""
    quiet = subprocess.DEVNULL
    done = subprocess.run([sys.executable, "-c", ESCAPE], stdout=subprocess.PIPE, stderr=quiet, text=True, check=True)
    Path(os.environ["ESCAPED"]).write_text(done.stdout)
    DEEDS[payload.text](job, payload)
    return {"pid": int(done.stdout)}


def wait_with_a_process(job: JobContext, payload: OddPayload) -> None:
    """Keep a process of one's own, named in the checkpoint, until cancelled."""
    with subprocess.Popen(["sleep", "600"]) as mine:
        job.checkpoint(mine.pid)
        try:
            wait_for_cancel(job, payload)
        finally:
            mine.kill()


def exhaust_memory(_job: JobContext, _payload: OddPayload) -> None:
    hoard = []
    while True:
        hoard.append(bytearray(16 * 1024 * 1024))


def raw_commit(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    write(job)
    job.connection.execute("COMMIT")
    return {}


def raw_rollback(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    write(job)
    job.connection.execute("ROLLBACK")
    return {}


def refused(name: str) -> Callable[[JobContext, OddPayload], None]:
    return lambda job, _payload: getattr(job.connection, name)()


def leave_aborted(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    write(job)
    try:
        job.connection.execute("SELECT nonsense")
    except psycopg.Error:
        return {}
    raise AssertionError


def end_own_backend(job: JobContext, _payload: OddPayload) -> None:
    write(job)
    job.connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def write_and_return(result: Any) -> Callable[[JobContext, OddPayload], Any]:
    def deed(job: JobContext, _payload: OddPayload) -> Any:
        write(job)
        return result

    return deed


def raising(error: Callable[[], BaseException]) -> Callable[[JobContext, OddPayload], None]:
    def deed(job: JobContext, _payload: OddPayload) -> None:
        write(job)
        raise error()

    return deed


def run_sql(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """SQL of the caller's own choosing: what an injection would run."""
    cursor = job.connection.execute(payload.text)
    return {"rows": [list(map(str, row)) for row in cursor.fetchall()] if cursor.description else []}


def resume(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Count to `number` with a checkpoint each time; on the first attempt stop half-way as `text` says."""
    reached = job.checkpoint_state or 0
    began_at = reached
    while reached < payload.number:
        reached += 1
        write_counted(job, reached)
        job.checkpoint(reached)
        if job.attempt == 1 and reached == payload.number // 2:
            DEEDS[payload.text](job, payload)
    return {"began_at": began_at, "reached": reached}


def write_counted(job: JobContext, number: int) -> None:
    job.connection.execute(
        "INSERT INTO customers (id, company_name, tax_condition, country) VALUES (%s, 'Odd', 'registered', 'counted')",
        (f"N{number}",),
    )


def wait_for_cancel(job: JobContext, _payload: OddPayload) -> None:
    job.progress(1, 10, "waiting to be cancelled")
    while True:
        job.check_cancelled()
        time.sleep(0.02)


def wait_for_checkpoint_stop(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    if job.attempt > 1:
        return {"resumed_from": job.checkpoint_state}
    job.progress(1, 10, "until told to stop")
    step = 0
    while True:
        step += 1
        job.checkpoint(step)
        time.sleep(0.01)


def items(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """A batch of `number` items; those whose number stands in `text` fail."""
    bad = set(payload.text.split(",")) if payload.text else set()
    batch = job.each(range(payload.number), chunk=5)
    for step in batch:
        with step as item:
            write_counted(job, item.value)
            if str(item.value) in bad:
                raise ValueError(f"item {item.value} is bad")
            item.ref = f"ref-{item.value}"
    counts = batch.counts
    return {"done": counts.done, "failed": counts.failed, "skipped": counts.skipped}


def skip_the_context(job: JobContext, _payload: OddPayload) -> None:
    for _step in job.each(range(3)):
        pass


def leave_the_batch_early(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    for step in job.each(range(10), chunk=4):
        with step as item:
            write_counted(job, item.value)
        if item.value == payload.number:
            break
    return {}


def deadlock_once(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    if not hasattr(deadlock_once, "met"):
        deadlock_once.met = True  # type: ignore[attr-defined]
        write(job)
        job.connection.execute("DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = '40P01'; END $$")
    write(job)
    return {}


def deadlock(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Lock the first of the two customers in `text`, wait until somebody has the other, then ask for that one too."""
    mine, other = payload.text.split()
    lock = "SELECT 1 FROM customers WHERE id = %s FOR UPDATE"
    job.connection.execute(lock, (mine,))
    meeting = Path(os.environ["MEET"])
    (meeting / mine).touch()
    while not (meeting / other).exists():
        time.sleep(0.01)
    job.connection.execute(lock, (other,))
    return {}


def wait_for_company(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Say that this job has started, and wait for the word to go on."""
    meeting = Path(os.environ["MEET"])
    (meeting / str(job.job_id)).touch()
    while not (meeting / "go").exists():
        time.sleep(0.1)
    return {}


def checkpoint_until_told(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Count with a checkpoint each time, until the word to go on."""
    reached = job.checkpoint_state or 0
    while not (Path(os.environ["MEET"]) / "go").exists():
        reached += 1
        job.checkpoint(reached)
        time.sleep(0.02)
    return {"reached": reached}


def wait_for_a_lock(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Wait for the customer in `text`, but not for long; say so in a file when it was in vain."""
    job.connection.execute("SET LOCAL lock_timeout = '300ms'")
    try:
        job.connection.execute("SELECT 1 FROM customers WHERE id = %s FOR UPDATE", (payload.text,))
    except psycopg.errors.LockNotAvailable:
        (Path(os.environ["MEET"]) / "in vain").touch()
        raise
    return {}


def commit_often(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Work for longer than any of its transactions lasts."""
    for step in range(payload.number):
        job.connection.execute("SELECT pg_sleep(0.3)")
        job.checkpoint(step)
    return {}


def hold_a_lock(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Run the SQL, then keep its locks for long; later attempts return at once."""
    if job.attempt == 1:
        job.connection.execute(payload.text)
        time.sleep(600)
    return {}


def print_much(_job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Print `number` megabytes."""
    for _ in range(payload.number):
        sys.stdout.write("x" * 2**20)
    return {}


def fail_then_reschedule(job: JobContext, _payload: OddPayload) -> Reschedule:
    if job.attempt < 3:
        raise ValueError("not yet")
    return Reschedule(after=3600)


def grow(_job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Keep `number` megabytes for good."""
    HOARD.append(bytearray(payload.number << 20))
    return {"pid": os.getpid()}


def who(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Say what this session is and what it carries."""
    with job.connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT current_user, current_setting('search_path'), pg_backend_pid(), current_setting('statement_timeout'),
                   (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors WHERE is_holdable),
                   ARRAY(SELECT pg_listening_channels())
            """
        )
        row = cursor.fetchone()
    assert row is not None
    user, path, backend, timeout, prepared, cursors, listening = row
    return {"user": user, "path": path, "backend": backend, "timeout": timeout, "prepared": prepared,
            "cursors": cursors, "listening": listening}  # fmt: skip


KEPT: list[psycopg.Connection[Any]] = []
LEFT_OPEN: list[Any] = []


def keep_the_session(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    KEPT.append(job.connection)
    return {}


def use_a_kept_session(_job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    KEPT[-1].execute("DELETE FROM customers WHERE false")
    return {}


def change_the_adapters(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Have numbers and truths come as text."""
    for name in ("int4", "int8", "bool", "uuid", "jsonb"):
        job.connection.adapters.register_loader(name, TextLoader)
    return {}


def change_the_modes(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    job.connection.execute("COMMIT")
    job.connection.autocommit = False
    job.connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    job.connection.read_only = True
    job.connection.cursor_factory = psycopg.ClientCursor
    return {}


def change_the_modes_and_give_up(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    change_the_modes(job, payload)
    raise PermanentFailure("enough")


def begin_again(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    job.connection.execute("COMMIT; BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")
    return {}


def leave_a_copy(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    copying = job.connection.cursor().copy("COPY customers TO STDOUT")
    copying.__enter__()
    LEFT_OPEN.append(copying)
    return {}


def fork_and_close(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Let a forked process close the session that it has inherited."""
    write(job)
    if (pid := os.fork()) == 0:
        psycopg.Connection.close(job.connection)
        os._exit(0)
    os.waitpid(pid, 0)
    job.connection.execute("SELECT 1")
    return {}


def fork_and_leave(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Let a forked process end with the session that it has inherited."""
    write(job)
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return {}


def become_another(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    job.connection.execute(f"SET ROLE {payload.text}".encode())
    return {}


def mess(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Leave the session changed, in the way that `text` names."""
    found = who(job, payload)
    match payload.text:
        case "settings":
            job.connection.execute("SET statement_timeout = '5s'; SET search_path = pg_catalog")
            job.connection.execute(f"SET search_path = {found['path']}; SET statement_timeout = '6s'")
        case "listening":
            job.connection.execute("LISTEN something")
        case "prepared":
            job.connection.execute("PREPARE mine AS SELECT 1")
        case "cursor":
            job.connection.execute("DECLARE mine CURSOR WITH HOLD FOR SELECT 1")
        case "row_factory":
            job.connection.row_factory = dict_row
    return found


def transaction_id(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Say which transaction and which process this is."""
    row = job.connection.execute("SELECT pg_current_xact_id()::text, pg_backend_pid()").fetchone()
    assert row is not None
    return {"transaction": row[0], "backend": row[1], "pid": os.getpid()}


def collide_once(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Meet another transaction the first time; say how often it was run."""
    runs = TRIES[payload.text] = TRIES.get(payload.text, 0) + 1
    if runs == 1:
        job.connection.execute("DO $$ BEGIN RAISE EXCEPTION 'met' USING ERRCODE = '40001'; END $$")
    return {"runs": runs}


def wait_in_vain(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Show that it runs, then wait for long; later attempts return at once."""
    if job.attempt == 1:
        job.progress(1, 2, "waiting")
        time.sleep(600)
    return {}


def stop_self(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Show that it runs, then sleep until it is continued; later attempts return at once."""
    if job.attempt == 1:
        job.progress(1, 2, "stopping")
        os.kill(os.getpid(), signal.SIGSTOP)
    return {}


def commit_and_begin(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """End the transaction and leave one that looks like it."""
    job.connection.execute("COMMIT")
    job.connection.execute("BEGIN")
    job.connection.execute("SAVEPOINT job")
    return {}


def defer_a_refusal(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Write what only the commit refuses."""
    job.connection.execute(
        "INSERT INTO refused_at_commit VALUES (1), (1)",
    )
    return {}


def leave_settings(job: JobContext, payload: OddPayload) -> None:
    """Make a session's settings permanent by a commit, then fail."""
    job.connection.execute(payload.text.encode())
    job.checkpoint(1)
    raise ValueError("after the settings")


def collide_at_commit(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    """Write what the commit refuses as a collision, the first `number` times; say how often it was run."""
    runs = TRIES[payload.text] = TRIES.get(payload.text, 0) + 1
    if runs <= payload.number:
        job.connection.execute("INSERT INTO met_at_commit VALUES (1)")
    return {"runs": runs}


def dict_rows(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    """Say what a row looks like, and leave the session with another factory."""
    row = job.connection.execute("SELECT 1 AS one").fetchone()
    job.connection.row_factory = dict_row
    return {"row": row if isinstance(row, dict) else list(row or ())}


def release_savepoint(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    job.connection.execute("RELEASE SAVEPOINT job")
    return {}


TRIES: dict[str, int] = {}
# How often this process called a grouped handler for a job.
RUNS: Counter[UUID] = Counter()
# What a test in the same process wants done from within a job, by the job's `text`.
HOOKS: dict[str, Callable[[JobContext], None]] = {}


def progress(job: JobContext, _payload: OddPayload) -> dict[str, Any]:
    job.progress(1, 2, "half")
    return {}


def hook(job: JobContext, payload: OddPayload) -> dict[str, Any]:
    HOOKS[payload.text](job)
    return {}


DEEDS: dict[str, Callable[[JobContext, OddPayload], Any]] = {
    "ok": lambda _job, _payload: {"fine": True},
    "loop_forever": loop_forever,
    "catastrophic_pattern": catastrophic_pattern,
    "sleep_in_sql": sleep_in_sql,
    "sys_exit_0": lambda _job, _payload: sys.exit(0),
    "os_exit_0": lambda _job, _payload: os._exit(0),
    "segfault": lambda _job, _payload: ctypes.string_at(0),
    "kill_self": lambda _job, _payload: os.kill(os.getpid(), signal.SIGKILL),
    "leave_a_grandchild": leave_a_grandchild,
    "escape": escape,
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
    "a_set": write_and_return({"a": {1}}),
    "too_large": write_and_return({"a": "x" * 300_000}),
    "no_dict": write_and_return("done"),
    "reschedule_after": write_and_return(Reschedule(after=3600)),
    "reschedule_at": write_and_return(Reschedule(at=datetime(2100, 1, 1, tzinfo=UTC))),
    "cancel": write_and_return(Cancel("nothing to do")),
    "run_sql": run_sql,
    "resume": resume,
    "wait_for_cancel": wait_for_cancel,
    "wait_for_checkpoint_stop": wait_for_checkpoint_stop,
    "items": items,
    "skip_the_context": skip_the_context,
    "leave_the_batch_early": leave_the_batch_early,
    "deadlock_once": deadlock_once,
    "who": who,
    "hold_a_lock": hold_a_lock,
    "deadlock": deadlock,
    "checkpoint_until_told": checkpoint_until_told,
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


class Odd(JobHandler[OddPayload]):
    """Do the named deed."""

    type = "odd"
    retry = RetryPolicy(max_attempts=4, first=0, longest=0)
    timeout = 60.0

    def handle(self, job: JobContext, payload: OddPayload) -> dict[str, Any] | Reschedule | Cancel:
        """Do it."""
        answer: dict[str, Any] | Reschedule | Cancel = DEEDS[payload.how](job, payload)
        return answer


class OddHurried(Odd):
    """The same with a second to do it in."""

    type = "odd_hurried"
    timeout = 1.0


class OddHooked(Odd):
    """The same, with what a test does before and after each attempt."""

    type = "odd_hooked"

    def before(self, job: JobContext) -> None:
        """Do what the test wants."""
        HOOKS["before"](job)

    def after(self, job: JobContext) -> None:
        """Do what the test wants."""
        HOOKS["after"](job)


class OddBrief(Odd):
    """The same, whose transactions may stay open for a second and a half."""

    type = "odd_brief"
    longest_transaction = 1.5


class OddSmall(Odd):
    """The same with little memory."""

    type = "odd_small"
    memory_mb = 64


class OddBatched(Odd):
    """The same; a `text` is the id of a customer to make first."""

    type = "odd_batched"

    def before(self, job: JobContext) -> None:
        """Count the run."""
        RUNS[job.job_id] += 1

    def handle(self, job: JobContext, payload: OddPayload) -> dict[str, Any] | Reschedule | Cancel:
        """Make the customer, then do it."""
        if payload.text:
            job.connection.execute(
                "INSERT INTO customers (id, company_name, tax_condition, country)"
                " VALUES (%s, 'Odd', 'registered', 'batched')",
                (payload.text,),
            )
        return super().handle(job, payload)


class OddBatchedHurried(OddBatched):
    """The same with a second for each."""

    type = "odd_batched_hurried"
    timeout = 1.0


class OddAlone(OddBatched):
    """The same, each with a commit of its own."""

    type = "odd_alone"
    alone = True


class OddOnce(Odd):
    """The same, never retried after an error."""

    type = "odd_once"
    retry = RetryPolicy.never()


class OddHealthy(Odd):
    """The same, with attempts that count as healthy at once."""

    type = "odd_healthy"
    retry = RetryPolicy(max_attempts=4, first=0, longest=0, healthy_after=0)


class HurriedSync(TaxpayerSync):
    """Taxpayer sync with an authority that decides within a second or so, and a client in a hurry."""

    type = "hurried_sync"
    # The kills of a test are no fault of the job's: its errors never use up its attempts.
    retry = RetryPolicy(max_attempts=1000, first=0.2, factor=1)
    latest = 1.5

    def __init__(self) -> None:
        super().__init__(TaxAuthority.of_environment(seconds=0.3))


class StoppingAuthority(TaxAuthority):
    """Stops this process between its intent and its call."""

    def authorise(self, request_id: str, invoice: dict[str, Any]) -> dict[str, Any]:
        """Stop, and when somebody wakes the process go on as if nothing had been."""
        os.kill(os.getpid(), signal.SIGSTOP)
        return super().authorise(request_id, invoice)


class StoppedSync(HurriedSync):
    """The same, whose first attempt is stopped."""

    type = "stopped_sync"

    def before(self, job: JobContext) -> None:
        """Stop at the first attempt's call."""
        if job.attempt == 1:
            self.authority = StoppingAuthority(self.authority.url)


REGISTRY = Registry(
    {
        "odd_healthy": "tests.misbehaving_handlers:OddHealthy",
        "odd": "tests.misbehaving_handlers:Odd",
        "odd_hurried": "tests.misbehaving_handlers:OddHurried",
        "odd_hooked": "tests.misbehaving_handlers:OddHooked",
        "odd_brief": "tests.misbehaving_handlers:OddBrief",
        "odd_small": "tests.misbehaving_handlers:OddSmall",
        "odd_batched": "tests.misbehaving_handlers:OddBatched",
        "odd_batched_hurried": "tests.misbehaving_handlers:OddBatchedHurried",
        "odd_alone": "tests.misbehaving_handlers:OddAlone",
        "odd_once": "tests.misbehaving_handlers:OddOnce",
        "hurried_sync": "tests.misbehaving_handlers:HurriedSync",
        "stopped_sync": "tests.misbehaving_handlers:StoppedSync",
        "raise_prices": "tests.raise_prices:RaisePrices",
        "batch_invoicing": "handlers.batch_invoicing:BatchInvoicing",
    }
)
