"""With every value that a tenant's functions accept, the shared functions and views, and every reader, still work.

`--hypothesis-seed=N` repeats a run, `--hypothesis-profile=soak` runs for hours. On the embedded server and on the
oldest that is supported.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from psycopg import sql

from tests import attempt_steps, claiming
from tests.installation import LOOK_ALIKE, ExampleInstallation, build_example
from turno.capabilities.effects import once as intents
from turno.capabilities.effects import review
from turno.capabilities.rabbitmq import message as messages
from turno.runner.session import HandlerConnection
from turno.store.api import jobs, notifications, watched_jobs
from turno.store.handler import attempts
from turno.store.operator import routing
from turno.store.operator.counts import worst_tenants
from turno.tenancy.identity.session import as_api, handler_session, service_session
from turno.tenancy.rights.grants import TENANT
from turno.tenancy.rights.matrix import Role
from turno.web.api.job_body import error_body, job_body

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turno.jobs.job import Claim

NOW = timedelta(0)
TYPE = "batch_invoicing"
# By the role that calls them; the parameters in the catalog are read once for each server.
CALLS = sorted(
    (role, name) for name, roles in TENANT.functions.items() for role in (Role.HANDLER, Role.API) if role in roles
)
SIGNATURE = """
SELECT coalesce(p.proargnames, '{}')::text[] AS names, t.name AS kind
FROM pg_proc p CROSS JOIN LATERAL unnest(p.proargtypes) WITH ORDINALITY AS a (type, place)
CROSS JOIN LATERAL format_type(a.type, NULL) AS t (name)
WHERE p.pronamespace = %s::regnamespace AND p.proname = %s ORDER BY a.place
"""


@dataclass
class Scene:
    """An installation with a running attempt, an attempt without a progress row, a failed job, and a waiting job.

    `known` are the names that calls may use.
    """

    example: ExampleInstallation
    session: HandlerConnection
    operator: psycopg.Connection[Any]
    signatures: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    claim: Claim | None = None
    fresh: Claim | None = None
    known: list[UUID] = field(default_factory=list)

    def set(self) -> None:
        """Drop the old state, and begin."""
        self.example.reset()
        worker = self.example.engine.start_worker(backend="pool", host="here", pid=1)
        ended, self.claim = (self._start(worker) for _ in range(2))
        attempt_steps.fail(self.session, ended, "failed", {"class": "Oops", "message": "no"}, None)
        waiting = self.example.enqueue({"order_ids": [1]}, idempotency_key="waits")
        self.fresh = self._claim(worker)
        self.known = [self.claim.job_id, self.claim.token, ended.job_id, ended.token, waiting]
        self.known += [self.fresh.job_id, self.fresh.token]
        intents.intend(self.session, self.claim, "effect", uuid4())
        attempt_steps.begin(self.session)
        attempts.items(self.session, self.claim, [{"key": "1", "state": "done"}], 2)
        psycopg.Connection.commit(self.session)

    def _claim(self, worker: UUID) -> Claim:
        claim = self.example.engine.claim_job(worker, self.example.enqueue({"order_ids": [1]}), types=[(TYPE, 1)])
        assert claim is not None
        return claim

    def _start(self, worker: UUID) -> Claim:
        claim = self._claim(worker)
        attempt_steps.start(self.session, claim, "here/1")
        return claim

    def signature(self, function: str) -> list[tuple[str, str]]:
        """Return the name and the type of each parameter."""
        if function not in self.signatures:
            rows = self.example.rows(SIGNATURE, self.example.one.schema, function)
            self.signatures[function] = [(rows[0]["names"][i], row["kind"]) for i, row in enumerate(rows)]
        return self.signatures[function]

    def call(self, role: Role, function: str, values: list[str | None]) -> bool:
        """Call the function as its caller would; return whether it took it."""
        assert self.claim is not None
        kinds = [kind for _, kind in self.signature(function)]
        marks = sql.SQL(", ").join(sql.SQL("%s::" + kind) for kind in kinds)
        statement = sql.SQL("SELECT * FROM {}({})").format(sql.Identifier(self.example.one.schema, function), marks)
        try:
            if role is Role.API:
                with as_api(self.example.web, self.example.one) as cursor:
                    cursor.execute(statement, values)
                return True
            attempt_steps.begin(self.session)
            self.session.execute(statement, values)
            psycopg.Connection.commit(self.session)
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise  # the server was lost
            if role is Role.HANDLER:
                psycopg.Connection.rollback(self.session)
            return False
        return True

    # Calls that must still work -------------------------------------------------------------------

    def shared_functions_work(self) -> None:
        """Everything that engine and operators call, for all tenants at once; nothing may raise."""
        engine, schema = self.example.engine, self.example.one.schema
        worker = engine.start_worker(backend="pool", host="here", pid=2)
        rows = self.example.rows("SELECT job_id, queue, type, version, backend FROM turno.tickets")
        lanes = [(row["type"], row["version"]) for row in rows] or [(TYPE, 1)]
        queues = sorted({row["queue"] for row in rows})
        engine.promote(1000)
        for backend in ("exec", "pool", "rabbitmq"):
            engine.unclaimed(backend=backend, queues=queues, types=lanes, waiting_for=NOW, limit=1000)
        self.operator.execute("SELECT reroute('rabbitmq')")
        messages.unpublished(engine, 100, 100)
        engine.move_unserved("pool", NOW)
        self.operator_s_views_can_be_read()
        claimer = claiming.claimer(queues=queues, types=lanes, backend="pool")
        claimer.claim(engine, worker, slots=1)
        claimer.claim(engine, worker, slots=1, sizes=lambda _: 3)
        for row in rows:
            engine.claim_job(worker, row["job_id"], types=lanes)
        self.operator_s_views_can_be_read()
        engine.execute("SELECT worker_stop(id) FROM unnest(%s::uuid[]) AS id", ([worker],))
        engine.prune_workers(-timedelta(hours=1))
        # Their backend is this test's own session, which a rescue would end.
        self.example.rows("UPDATE background_job_attempt_rows SET backend_start = 'epoch'")
        for orphan in engine.orphans():
            engine.rescue(orphan.login.schema, orphan.job_id, orphan.token, cause="lost", retry_in=NOW)
        self.example.rows("DELETE FROM turno.tickets WHERE ctid IN (SELECT ctid FROM turno.tickets LIMIT 1)")
        engine.repair(schema, "pool")
        engine.expire(schema)
        engine.purge(schema, NOW, 1000)

    def operator_s_views_can_be_read(self) -> None:
        """The views of `turno backend status`, `turno tenant shares` and /admin."""
        routing.counts(self.operator)
        worst_tenants(self.operator)
        for view in ("ticket_counts", "backend_counts", "tenant_shares"):
            self.operator.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(view))).fetchall()

    def readers_work(self) -> None:
        """The reads of the API, the pages and the streams; nothing may raise, and all of it can be rendered."""
        with as_api(self.example.web, self.example.one) as reader:
            result = jobs.search(reader, jobs.JobFilter(limit=100))
            users = sorted({row["user_id"] for row in result})
            reply: list[Any] = [job_body(row, "", operator=True) for row in result]
            reply += [jobs.dead_letters(reader, replayed=False, before=None, limit=100)]
            for user in users:
                watched_jobs.of_user(reader, user)
                reply += [notifications.search(reader, user, unread=False, before=None, limit=100)]
            watched_jobs.standings(reader, [row["id"] for row in result], users)
            for row in result:
                reply += [jobs.find(reader, row["id"], None), jobs.events(reader, row["id"])]
                reply += [review.of_job(reader, row["id"], after="", limit=100)]
                for attempt in jobs.attempts(reader, row["id"]):
                    reply.append(error_body(attempt["error"], operator=True))
                for item in jobs.items(reader, row["id"], None, "", 100):
                    reply.append(error_body(item["error"], operator=True))
        json.dumps(reply, default=str)
        assert len(str(reply)) < 20_000_000

    def time_passes(self) -> None:
        """Let everything be due that ever will be."""
        self.example.rows("UPDATE turno.tickets SET run_at = least(run_at, now()) WHERE isfinite(run_at)")


@pytest.fixture(scope="module")
def each_scene(each_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A scene on each server."""
    with build_example(each_database, tmp_path_factory.mktemp("accepted"), LOOK_ALIKE) as example:
        session = handler_session(example.logins, example.handler_login(), application="test", kind=HandlerConnection)
        with service_session(example.logins, example.logins.operator, application="test") as operator:
            yield Scene(example, session, operator)
        psycopg.Connection.close(session)


# Values for a parameter ------------------------------------------------------------------------------

LONG = ("0123456789abcdef" * 400)[:5334]
DEEP = 6000


def _items(*items: dict[str, Any]) -> str:
    return json.dumps(items)


HOSTILE: dict[str, list[Any]] = {
    "text": [
        *("", " ", "x", "count", "done", "failed", "intended", "absent", "completed", "cancelled", "rescheduled"),
        *("released", "ñandú\u2028🦤\x1b[2J", "'; DROP SCHEMA turno", "{}", "1", "effect", "waits", "ana"),
        *("y" * 64, "y" * 128, "y" * 256, LONG[:2644], LONG, "é" * 1_000_000),
    ],
    "jsonb": [
        *("null", "1", '"x"', "[]", "[1]", "{}", '{"class": 1, "message": {"a": []}}', '{"class": "Oops"}'),
        *("[" * DEEP + "]" * DEEP, '{"a": ' * 190 + "1" + "}" * 190, '{"a": ' * 300 + "1" + "}" * 300),
        *("1e5000", '{"n": -1e4400, "s": "' + "x" * 5000 + '"}', json.dumps({"a": "\U0001f9a4\ud7ff\x01" * 100})),
        *(json.dumps({"message": "m" * 2_000_000, "class": "c" * 500_000}), json.dumps({"message": "m" * 120_000})),
        _items({"key": "2", "state": "done"}),
        _items({"key": "3", "state": "failed", "error": [1]}),
        _items({"key": "4", "state": "failed", "error": {"class": "E"}}),
        _items({"key": LONG, "state": "done", "ref": LONG}),
        _items({"key": None, "state": "done"}),
        _items({"key": "5", "state": "done", "ref": "r" * 2000}),
        _items({"key": "", "state": "skipped"}),
        _items(*({"key": str(n), "state": "failed", "error": {"class": "E"}} for n in range(10, 300))),
    ],
    "timestamp with time zone": [
        *("infinity", "-infinity", "294276-12-31 23:59:59Z", "10000-01-01", "9999-12-31 23:59:59.999999Z"),
        *("0001-01-01", "4713-01-01 BC", "1999-12-31", "2000-01-01 00:00Z", "now", "2100-02-28 00:00Z"),
    ],
    "interval": [
        *("0", "-1 second", "-1000 years", "1 hour", "178000 years", "-178000000 years", "infinity", "-infinity"),
    ],
    "integer": [0, 1, -1, 2, 4, 1000, 2**31 - 1, -(2**31)],
    "bigint": [0, 1, -1, 1000, 2**63 - 1, -(2**63)],
    "smallint": [0, 1, -1, 2, 3, 32767, -32768],
    "boolean": ["true", "false"],
    "bytea": ["\\x", "\\x00", "\\x" + "78" * 65, "\\x" + "78" * 2_000_000],
}
# An honest caller's values, by the parameter's name.
HONEST: dict[str, str | None] = {
    "p_type": TYPE, "p_version": "1", "p_queue": "hot", "p_backend": "pool", "p_priority": "1",
    "p_max_attempts": "4", "p_payload": "{}", "p_user": "ana", "p_run_at": None,
    "p_expires_at": None, "p_idempotency_key": None, "p_correlation_id": None, "p_trace_context": None,
    "p_parent": None, "p_pending_limit": None, "p_day_limits": '{"jobs_per_day_per_user": 1000}',
    "p_reason": "because", "p_error": '{"class": "Oops", "message": "no"}',
    "p_retry_in": "0", "p_reset_errors": "false", "p_outcome": "released", "p_key": "effect", "p_state": "done",
    "p_by": "a test", "p_worker": "here/2", "p_message": "half", "p_done": "1", "p_total": "2",
    "p_items": json.dumps([{"key": "9", "state": "done"}]), "p_results": '{"{}"}', "p_run_ms": "{1}",
    "p_result": '{"ok": true}',
}  # fmt: skip


def honest_values(claim: Claim) -> dict[str, str | None]:
    """Return an honest caller's values for this claim, by the parameter's name."""
    return {
        **HONEST,
        "p_job": str(claim.job_id),
        "p_jobs": f"{{{claim.job_id}}}",
        "p_tokens": f"{{{claim.token}}}",
        "p_token": str(claim.token),
        "p_began": "{now}",
        "p_ended": "{now}",
        "p_started": "now",
    }


def value(data: st.DataObject, scene: Scene, claim: Claim, name: str, kind: str) -> str | None:
    """Draw a parameter's value, as the text that the server reads; honest values lead the call further in."""
    honest = honest_values(claim)
    if kind == "timestamp with time zone" and name == "p_began":
        honest["p_began"] = "now"
    if name in honest and data.draw(st.integers(0, 3), label=f"{name} is hostile below 1") > 0:
        return honest[name]
    if kind.endswith("[]"):
        members = [value(data, scene, claim, "", kind[:-2]) for _ in range(data.draw(st.integers(0, 3)))]
        return (
            "{"
            + ", ".join("NULL" if member is None else json.dumps(member, ensure_ascii=False) for member in members)
            + "}"
        )
    if kind == "turno.new_job":  # test_limits_of_values has its fields
        return None
    choices: list[Any] = {"uuid": [*map(str, scene.known), str(uuid4())], **HOSTILE}[kind]
    drawn = data.draw(st.none() | st.sampled_from(choices), label=name)
    return None if drawn is None else str(drawn)


@pytest.mark.timeout(600)
@settings(max_examples=settings().max_examples // 2, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_values_accepted_by_a_tenant_stop_no_reader(each_scene: Scene, data: st.DataObject) -> None:
    each_scene.set()
    for role, function in data.draw(st.lists(st.sampled_from(CALLS), min_size=1, max_size=6)):
        signature = each_scene.signature(function)
        claim = data.draw(
            st.sampled_from([candidate for candidate in (each_scene.claim, each_scene.fresh) if candidate is not None])
        )
        values = [value(data, each_scene, claim, name, kind) for name, kind in signature]
        taken = each_scene.call(role, function, values)
        event(f"{function} {'accepts' if taken else 'refuses'}")
    each_scene.readers_work()
    each_scene.shared_functions_work()
    each_scene.time_passes()
    each_scene.shared_functions_work()
    each_scene.readers_work()


# Both servers judge values by the same domains, and the preceding test runs on both.
@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("each_database", ["cluster"], indirect=True)
@pytest.mark.parametrize("function", [name for role, name in CALLS if role is Role.HANDLER])
@pytest.mark.parametrize("shown", [True, False], ids=["shown", "fresh"])
def test_no_value_of_an_argument_stops_a_shared_call(each_scene: Scene, function: str, *, shown: bool) -> None:
    """Each argument of each function of the handler's role has each hostile value once, beside honest values."""
    signature = each_scene.signature(function)
    each_scene.set()
    for position, (_, kind) in enumerate(signature):
        for hostile in (None, *HOSTILE.get(kind.removesuffix("[]"), [])):
            claim = each_scene.claim if shown else each_scene.fresh
            assert claim is not None
            honest = honest_values(claim)
            values = ["now" if type_ == "timestamp with time zone" else honest.get(name) for name, type_ in signature]
            text = None if hostile is None else str(hostile)
            values[position] = f"{{{json.dumps(text, ensure_ascii=False)}}}" if kind.endswith("[]") and text else text
            if each_scene.call(Role.HANDLER, function, values):
                each_scene.readers_work()
                each_scene.shared_functions_work()
                each_scene.readers_work()
                each_scene.set()  # a refused call has changed nothing
