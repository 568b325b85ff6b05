"""The files, SQL functions and cost of a POST, a claim and a job: an increase fails without a measured time.

`pytest -rP tests/integration/test_job_path.py` prints the names and the numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from cli.servers.embedded_postgres import Cluster
from tests.api import a_service
from tests.greetings import Greetings, build_registry
from tests.recorded_calls import recorded
from turno.runner.executor import Executor
from turno.runner.session import HandlerConnection, Sessions
from turno.runner.shared_state import WorkerCallbacks
from turno.store.engine.engine import Engine
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import handler_session, service_session
from turno.testing.wait import wait_until
from turno.worker.sources.polling import PoolSource

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    import pytest

    from turno.jobs.job import Batch

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = "SELECT funcname, calls FROM pg_stat_user_functions WHERE schemaname ~ '^(turno|t_[0-9a-f]+)$'"
STATEMENT = re.compile(rb"\[(\d+)\] LOG:  (?:statement|execute [^:]+): ")
LOG = "SELECT pg_current_wal_insert_lsn() - '0/0'"
ROWS = "SELECT sum(n_tup_ins + n_tup_upd + n_tup_del)::integer FROM pg_stat_user_tables"
MEASURED = 4  # acts; with the first as many as a user may have open
MOST = {"POST": (19, 6), "claim": (5, 3), "completion": (13, 3), "all": (31, 11)}  # files, SQL functions


@dataclass(frozen=True)
class Cost:
    """The cost of one act: calls and executed lines in Python, messages to the server, which are round trips, its
    statements, bytes of the write-ahead log, and rows written.
    """

    calls: int
    lines: int
    messages: int
    statements: int
    log_bytes: int
    rows: int


# A little above the measured numbers. Lower them when a job becomes cheaper; a commit that raises them has a reason.
DEAREST = {
    # One message finds the tenant, which a web process repeats every 2 s only.
    "POST": Cost(calls=2_100, lines=820, messages=2, statements=2, log_bytes=1_800, rows=10),
    "claim": Cost(calls=310, lines=90, messages=1, statements=1, log_bytes=480, rows=1),
    "completion": Cost(calls=505, lines=765, messages=2, statements=15, log_bytes=1_400, rows=3),
}


class Stage:
    """Acts several times; records the files and functions that all acts but the first have in common.

    The first act also fills caches. A slow answer of the server, or the maintenance of the web, adds to some acts.
    """

    def __init__(self, admin: psycopg.Connection[Any], database: str, log: Path) -> None:
        self._admin = admin
        self._database = database
        self._log = log

    def record(self, name: str, act: Callable[[], Any], *, sessions: Callable[[], None]) -> Passed:
        before, rows = self._calls(), self._number(ROWS)
        results, result, log_bytes, statements = [act()], [], [], []
        for _ in range(MEASURED):
            begin, size = self._number(LOG), self._log.stat().st_size
            with recorded() as recorded_act:
                results.append(act())
            log_bytes.append(self._number(LOG) - begin)
            # Of the session of the act: the live streams of the web look for changes several times a second.
            sessions_of = Counter(STATEMENT.findall(self._log.read_bytes()[size:]))
            statements.append(max(sessions_of.values()))
            result.append(recorded_act)
        sessions()
        self.end_sessions()
        functions = {function for function, calls in self._calls().items() if calls > before.get(function, 0)}
        cost = Cost(
            calls=min(recording.calls for recording in result),
            lines=min(recording.lines for recording in result),
            messages=min(recording.messages for recording in result),
            statements=min(statements),
            log_bytes=min(log_bytes),
            rows=(self._number(ROWS) - rows) // len(results),
        )
        files = set.intersection(*(recording.files for recording in result))
        return Passed(name, files, functions, results, cost)

    def _calls(self) -> dict[str, int]:
        return dict(self._admin.execute(FUNCTIONS).fetchall())

    def _number(self, query: LiteralString) -> int:
        row = self._admin.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def end_sessions(self) -> None:
        """End all other sessions: each reports its calls at its end."""
        others = "FROM pg_stat_activity WHERE datname = %s AND pid <> pg_backend_pid()"
        ended = f"SELECT count(pg_terminate_backend(pid)) {others} AND backend_type = 'client backend'"
        assert wait_until(lambda: self._admin.execute(ended, [self._database]).fetchone() == (0,), within=60)


@dataclass
class Passed:
    name: str
    files: set[str]
    functions: set[str]
    results: list[Any]
    cost: Cost


def test_a_job_passes_through_few_files_and_functions(
    module_database: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Greetings, "handle", lambda *_: {"greeted": 2})
    database = str(conninfo_to_dict(module_database)["dbname"])
    logins = Logins(server=module_database, master_key=b"a master key of 32 bytes or more")
    with psycopg.connect(module_database, autocommit=True) as admin:
        stage = Stage(admin, database, cluster.log)
        for setting in ("track_functions", "log_statement"):
            change = sql.SQL("ALTER DATABASE {} SET {} = 'all'")
            admin.execute(change.format(sql.Identifier(database), sql.Identifier(setting)))
        with a_service(module_database) as service:
            ana = service.caller()
            posted = stage.record("POST", ana.job, sessions=lambda: None)
        with Engine.on(service_session(logins, logins.engine, application="test")) as engine:
            worker = engine.start_worker(backend=service.queue.name, host="test", pid=1)
        stage.end_sessions()  # the session that started the worker reports its calls at its end
        session = service_session(logins, logins.engine, application="test")
        claimed = stage.record("claim", _claims(Engine.on(session), worker, service.queue.name), sessions=session.close)
        kept = Sessions(
            lambda login: handler_session(logins, login, application="test", kind=HandlerConnection), keep=1
        )
        completed = stage.record("completion", _executions(kept, claimed.results), sessions=kept.close)
    assert [set(ends.values()) for ends in completed.results] == [{"completed"}] * (1 + MEASURED)
    stages = [posted, claimed, completed]
    costs = {stage.name: stage.cost for stage in stages}
    whole = Passed(
        "all",
        set.union(*(stage.files for stage in stages)),
        set.union(*(stage.functions for stage in stages)),
        [],
        posted.cost,
    )
    for name, cost in costs.items():
        print(name, cost)  # noqa: T201 - shown by -rP
    for part in (*stages, whole):
        print(part.name, len(part.files), len(part.functions), *sorted(part.files), *sorted(part.functions), sep="\n  ")  # noqa: T201 - shown by -rP
    measured = {stage.name: (len(stage.files), len(stage.functions)) for stage in (*stages, whole)}
    above = {
        name for name, (files, functions) in measured.items() if files > MOST[name][0] or functions > MOST[name][1]
    }
    assert above == set(), measured
    dearer = {
        (stage, name, value)
        for stage, cost in costs.items()
        for name, value in asdict(cost).items()
        if value > asdict(DEAREST[stage])[name]
    }
    assert dearer == set(), costs


def _claims(engine: Engine, worker: UUID, backend: str) -> Callable[[], list[Batch]]:
    """Return the polls of a resident worker that has one free child."""
    source = PoolSource(engine=engine, hints=engine, registry=build_registry(), backend=backend)
    return lambda: source.take(worker, 1)


def _executions(sessions: Sessions, claimed: list[list[Batch]]) -> Callable[[], Any]:
    executor = Executor(registry=build_registry(), sessions=sessions, worker="test", callbacks=WorkerCallbacks())
    batches = iter([batch for result in claimed for batch in result])
    return lambda: executor.execute(next(batches))
