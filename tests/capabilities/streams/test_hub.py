"""The hub over a real database: a change is shown, with a hint or without, to authorised users."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from tests.installation import ExampleInstallation
from tests.subscribers import subscriber
from turno.capabilities.streams.hub import Hub
from turno.capabilities.streams.stream_events import StreamEvents
from turno.capabilities.streams.subscriber import CloseReason, Subscriber
from turno.store.changes import Changes
from turno.store.engine.engine import Engine
from turno.tenancy.identity.session import service_session
from turno.tenancy.identity.tenant import Tenant
from turno.testing.wait import wait_until
from turno.web.responses import Problem

CANARY = "canary-5b1f"


class Watching:
    """A subscriber with everything it was ever shown."""

    def __init__(self, watched: Subscriber) -> None:
        self.subscriber = watched
        self.frames: list[str] = []
        self.close_reason: CloseReason | None = None

    @property
    def shown(self) -> list[tuple[str, dict[str, Any]]]:
        frames, self.close_reason = self.subscriber.take()
        self.frames += [bytes(frame).decode("ascii") for frame in frames]
        return [(frame.split("\n")[0][6:], json.loads(frame.split("data:", 1)[1])) for frame in self.frames]

    def sees(self, matches: Callable[[dict[str, Any]], bool], *, kind: str = "job", within: float = 15) -> bool:
        return wait_until(lambda: any(name == kind and matches(body) for name, body in self.shown), within=within)

    def ends(self, reason: CloseReason) -> bool:
        return wait_until(lambda: bool(self.shown) is not None and self.close_reason is reason, within=15)


@contextmanager
def hub_of(example: ExampleInstallation, *, sweep: float, **limits: int) -> Iterator[Hub]:
    def connect() -> psycopg.Connection[Any]:
        connection = service_session(example.logins, example.logins.web, application="test-hub")
        connection.execute("SET lock_timeout = '200ms'")
        return connection

    hub = Hub(
        connect=connect,
        events=StreamEvents(),
        compare_every=sweep,
        **{"most": 50, "most_per_tenant": 40, "most_per_user": 20} | limits,
    )
    try:
        yield hub
    finally:
        hub.stop()


@pytest.fixture
def hinted(example: ExampleInstallation) -> Iterator[Hub]:
    """A hub that looks once, when it begins to listen, and then for an hour shows only hinted changes."""
    with hub_of(example, sweep=3600) as hub:
        yield hub


@pytest.fixture
def looking(example: ExampleInstallation) -> Iterator[Hub]:
    """A hub that looks without hints five times a second."""
    with hub_of(example, sweep=0.2) as hub:
        yield hub


def listening(example: ExampleInstallation) -> list[int]:
    rows = example.rows("SELECT pid FROM pg_stat_activity WHERE application_name = 'test-hub'"
                        " AND datname = current_database() AND query ~ '^LISTEN'")  # fmt: skip
    return [row["pid"] for row in rows]


def join(example: ExampleInstallation, hub: Hub, *, tenant: Tenant | None = None, **options: Any) -> Watching:
    watched = subscriber(tenant=tenant or example.one, **options)
    hub.join(watched)
    assert wait_until(lambda: listening(example) != [], within=15)
    return Watching(watched)


def hint(example: ExampleInstallation, *jobs: UUID, tenant: Tenant | None = None) -> None:
    gathered = Changes()
    for job_id in jobs:
        gathered.add((tenant or example.one).id, job_id)
    Engine.on(example.web).announce_changes(gathered.take())


def move(example: ExampleInstallation, job_id: UUID, done: int, tenant: Tenant | None = None) -> None:
    example.rows(
        "INSERT INTO background_job_progress_rows AS p (job_id, done, total, message) VALUES (%s, %s, 100, %s)"
        " ON CONFLICT (job_id) DO UPDATE SET done = excluded.done, revision = p.revision + 1",
        job_id, done, CANARY if tenant else None, tenant=tenant,
    )  # fmt: skip


def end(example: ExampleInstallation, job_id: UUID) -> None:
    example.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", job_id)
    example.rows("SELECT job_end(%s, 'completed', NULL, '{}', NULL)", job_id)


def done(number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: bool(body["progress"]["done"] == number)


def completed(body: dict[str, Any]) -> bool:
    return bool(body["status"] == "completed")


def test_hinted_change_is_shown_to_authorised_users(example: ExampleInstallation, hinted: Hub) -> None:
    job_id, other = example.enqueue({"order_ids": [1]}), example.enqueue({"order_ids": [2]})
    mine, job, ben = join(example, hinted), join(example, hinted, job_id=job_id), join(example, hinted, user="ben")
    operator = join(example, hinted, user="boss", operator=True, job_id=job_id)
    move(example, job_id, 3)
    move(example, other, 4)
    hint(example, job_id, other)
    for watching in (mine, job, operator):
        assert watching.sees(done(3))
    assert mine.sees(done(4))
    end(example, job_id)
    hint(example, job_id)
    assert mine.sees(completed)
    assert mine.sees(lambda reply: bool(reply["job_id"] == str(job_id)), kind="notification")
    assert job.ends(CloseReason.JOB_ENDED)
    assert operator.ends(CloseReason.JOB_ENDED)
    assert {body["job_id"] for _, body in job.shown} == {str(job_id)}
    assert [name for name, _ in job.shown if name == "notification"] == []
    assert mine.close_reason is None
    assert ben.shown == []


def test_operator_watches_all_jobs_and_no_notifications(example: ExampleInstallation, looking: Hub) -> None:
    before = example.enqueue({"order_ids": [1]}, user_id="ben")
    eva = join(example, looking, user="eva", operator=True, everybody=True)
    narrow = join(example, looking, user="eva", operator=True)
    later = example.enqueue({"order_ids": [2]}, user_id="carla")
    elsewhere = example.enqueue({"order_ids": [3]}, user_id="dora", tenant=example.other)
    for job in (before, later):
        assert eva.sees(lambda body, job=job: body["job_id"] == str(job))  # type: ignore[misc]
        end(example, job)
        assert eva.sees(lambda body, job=job: body["job_id"] == str(job) and completed(body))  # type: ignore[misc]
    own = example.enqueue({"order_ids": [4]}, user_id="eva")
    for watching in (eva, narrow):
        assert watching.sees(lambda body: body["job_id"] == str(own))
    assert {body["job_id"] for _, body in narrow.shown} == {str(own)}
    assert {name for name, _ in eva.shown} == {"job"}
    assert str(elsewhere) not in [body["job_id"] for _, body in eva.shown]


def test_parked_job_notifies_its_user_at_once(example: ExampleInstallation, hinted: Hub) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    mine = join(example, hinted)
    example.rows("UPDATE background_jobs SET run_at = 'infinity', reason = 'in doubt' WHERE id = %s", job_id)
    example.rows("INSERT INTO notifications_of_reviews (user_id, job_id, data) VALUES ('ana', %s, '{}')", job_id)
    hint(example, job_id)
    assert mine.sees(lambda reply: bool(reply["kind"] == "needs_review"), kind="notification")


def test_another_tenant_s_changes_never_arrive(example: ExampleInstallation, looking: Hub) -> None:
    """Look-alike tenants: the same user, orders and payload, and hints that name a job under the wrong tenant."""
    ours, theirs = example.enqueue({"order_ids": [1]}), example.enqueue({"order_ids": [1]}, tenant=example.other)
    mine, watching_theirs = join(example, looking), join(example, looking, job_id=theirs)
    there = join(example, looking, tenant=example.other)
    move(example, theirs, 9, tenant=example.other)
    hint(example, theirs, tenant=example.one)
    hint(example, theirs, tenant=example.other)
    assert there.sees(done(9))
    move(example, ours, 5)
    assert mine.sees(done(5))
    assert watching_theirs.ends(CloseReason.JOB_GONE)
    assert CANARY in "".join(there.frames)
    assert CANARY not in "".join(mine.frames + watching_theirs.frames)


@pytest.mark.parametrize("kind", ["job", "user"])
def test_a_lost_hint_is_made_good_for(example: ExampleInstallation, looking: Hub, kind: str) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    watching = join(example, looking, job_id=job_id if kind == "job" else None)
    move(example, job_id, 7)
    assert watching.sees(done(7))
    end(example, job_id)
    assert watching.sees(completed)
    if kind == "user":
        assert watching.sees(lambda reply: bool(reply["kind"] == "completed"), kind="notification")


def test_a_job_that_began_and_ended_between_two_looks_is_shown(example: ExampleInstallation, looking: Hub) -> None:
    watching = join(example, looking)
    # Of another user until it has ended: no look can come between.
    job_id = example.enqueue({"order_ids": [1]}, user_id="ben")
    with example.admin.transaction():
        example.rows("UPDATE background_jobs SET user_id = 'ana' WHERE id = %s", job_id)
        end(example, job_id)
    assert watching.sees(lambda body: bool(body["job_id"] == str(job_id) and completed(body)))
    assert watching.sees(lambda reply: bool(reply["job_id"] == str(job_id)), kind="notification")


def test_a_job_that_becomes_due_changes_its_label_by_time_alone(example: ExampleInstallation, looking: Hub) -> None:
    job_id = example.enqueue({"order_ids": [1]}, run_at=example.rows("SELECT now() + interval '3 s' AS at")[0]["at"])
    watching = join(example, looking)
    assert watching.sees(lambda body: bool(body["label"] == "scheduled"))
    assert watching.sees(lambda body: bool(body["job_id"] == str(job_id) and body["label"] == "waiting"))
    assert len({body["revision"] for _, body in watching.shown}) == 1


def test_lost_listener_returns_with_missed_changes(example: ExampleInstallation) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    with hub_of(example, sweep=1.0) as hub:
        watching = join(example, hub)
        for number in (1, 2):
            before = listening(example)
            example.rows("SELECT pg_terminate_backend(%s, 5000)", before[0])
            move(example, job_id, number)
            assert watching.sees(done(number))
            assert wait_until(lambda gone=before: listening(example) not in ([], gone), within=10)  # type: ignore[misc]


def test_forged_and_senseless_hints_are_ignored(example: ExampleInstallation, hinted: Hub) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    watching = join(example, hinted)
    assert watching.sees(lambda body: bool(body["job_id"] == str(job_id)))  # its one look, when it began to listen
    sessions = listening(example)  # and perhaps one of a test before that is about to go
    example.rows("SELECT count(pg_notify('turno_changes', repeat('x', 7000) || n)) FROM generate_series(1, 99) AS n")
    hint(example, *(uuid4() for _ in range(300)))  # more than 500 at once would leave the rest to the next look
    hint(example, job_id, tenant=example.other)
    move(example, job_id, 8)
    assert len(watching.shown) == 1
    hint(example, job_id)
    assert watching.sees(done(8))
    assert set(listening(example)) <= set(sessions)


def test_hint_flood_looks_at_every_tenant_without_reading(example: ExampleInstallation, hinted: Hub) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    watching = join(example, hinted)
    assert watching.sees(lambda body: bool(body["job_id"] == str(job_id)))  # its one look, when it began to listen
    move(example, job_id, 8)
    example.rows("SELECT count(pg_notify('turno_changes', repeat('x', 7000) || n)) FROM generate_series(1, 3000) AS n")
    assert watching.sees(done(8))


def test_hints_of_a_busy_job_do_not_delay_its_neighbours(example: ExampleInstallation) -> None:
    busy, other = example.enqueue({"order_ids": [1]}), example.enqueue({"order_ids": [2]})
    with hub_of(example, sweep=1.0) as hub:
        watching, mine = join(example, hub, job_id=busy), join(example, hub, job_id=other)
        # The look when it began to listen is over: it may come late where many notifications were left to pass over.
        assert mine.sees(lambda body: bool(body["job_id"] == str(other)))
        move(example, other, 9)
        for number in range(1, 90):
            move(example, busy, number)
            hint(example, busy)
            assert watching.sees(done(number))
            if mine.sees(done(9), within=0.05):
                break
        assert mine.sees(done(9), within=0)


def test_long_error_and_result_are_left_to_the_job_url(example: ExampleInstallation, hinted: Hub) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    watching = join(example, hinted, user="boss", operator=True, job_id=job_id)
    mine = join(example, hinted)
    error = json.dumps({"class": "Crash", "message": "m" * 60_000, "traceback": "t" * 60_000})
    example.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", job_id)
    example.rows("SELECT job_end(%s, 'failed', 'x', NULL, %s)", job_id, error)
    hint(example, job_id)
    assert watching.sees(lambda body: bool(body["status"] == "failed"))
    shown = {"class": "Crash", "message": "m" * 500, "traceback": None, "reference": None}
    assert watching.shown[-1][1]["error"] == shown
    assert mine.sees(lambda body: bool(body["error"] and body["error"]["class"] == "UnexpectedError"))
    longer = example.enqueue({"order_ids": [2]})
    example.rows("UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", longer)
    example.rows("SELECT job_end(%s, 'completed', NULL, %s, NULL)", longer, json.dumps({"r": "r" * 900_000}))
    hint(example, longer)
    assert mine.sees(completed)
    assert max(map(len, mine.frames + watching.frames)) < 4096


def test_locked_tenant_delays_no_stream_of_others(example: ExampleInstallation, looking: Hub) -> None:
    own, foreign = example.enqueue({"order_ids": [1]}), example.enqueue({"order_ids": [1]}, tenant=example.other)
    watching, watching_there = join(example, looking), join(example, looking, tenant=example.other)
    move(example, foreign, 6, tenant=example.other)
    sessions = listening(example)  # and perhaps one of a test before that is about to go
    with psycopg.connect(example.url) as blocker:
        blocker.execute(f"LOCK TABLE {example.other.schema}.background_jobs IN ACCESS EXCLUSIVE MODE".encode())
        for number in (1, 2, 3):
            move(example, own, number)
            hint(example, own)
            hint(example, foreign, tenant=example.other)
            assert watching.sees(done(number))
        assert set(listening(example)) <= set(sessions)
    assert watching_there.sees(done(6))


def test_purged_job_ends_exactly_its_stream(example: ExampleInstallation, looking: Hub) -> None:
    job_id, stays = example.enqueue({"order_ids": [1]}), example.enqueue({"order_ids": [2]})
    watching, mine = join(example, looking, job_id=job_id), join(example, looking)
    move(example, job_id, 1)
    assert mine.sees(done(1))
    example.rows("DELETE FROM background_jobs WHERE id = %s", job_id)
    assert watching.ends(CloseReason.JOB_GONE)
    move(example, stays, 2)
    assert mine.sees(done(2))
    assert mine.close_reason is None


def test_streams_end_with_revoked_tokens_or_removed_tenant(example: ExampleInstallation, looking: Hub) -> None:
    old, new = join(example, looking, issued_at=1_000.0), join(example, looking, issued_at=4e9)
    gone = join(example, looking, tenant=example.other)
    example.rows("UPDATE turno.tenants SET tokens_valid_from = to_timestamp(2000) WHERE id = %s", example.one.id)
    example.rows("UPDATE turno.tenants SET state = 'removed' WHERE id = %s", example.other.id)
    try:
        assert old.ends(CloseReason.SESSION_OVER)
        assert gone.ends(CloseReason.SESSION_OVER)
        assert new.close_reason is None
    finally:
        example.rows("UPDATE turno.tenants SET tokens_valid_from = '-infinity', state = 'active'")


def test_a_hub_serves_so_many_streams_and_so_many_of_one_user(example: ExampleInstallation) -> None:
    with hub_of(example, sweep=3600, most=3, most_per_user=2) as hub:
        first, second = subscriber(tenant=example.one), subscriber(tenant=example.one)
        hub.join(first)
        hub.join(second)
        with pytest.raises(Problem, match="You have 2 streams"):
            hub.join(subscriber(tenant=example.one))
        hub.join(subscriber(tenant=example.other))
        with pytest.raises(Problem, match="This server has 3 streams"):
            hub.join(subscriber(tenant=example.one, user="ben"))
        hub.leave(first)
        hub.leave(first)
        hub.join(subscriber(tenant=example.one))
        assert len(hub) == 3


def test_one_tenant_takes_its_share_of_the_streams(example: ExampleInstallation) -> None:
    with hub_of(example, sweep=3600, most=4, most_per_tenant=2) as hub:
        first = subscriber(tenant=example.one, user="ana")
        hub.join(first)
        hub.join(subscriber(tenant=example.one, user="ben"))
        with pytest.raises(Problem, match="This tenant has 2"):
            hub.join(subscriber(tenant=example.one, user="eva"))
        hub.join(subscriber(tenant=example.other))
        hub.leave(first)
        hub.join(subscriber(tenant=example.one, user="eva"))


def test_many_viewers_cost_one_session_and_one_reading(example: ExampleInstallation, hinted: Hub) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    crowd = [join(example, hinted, job_id=job_id) for _ in range(15)]
    assert len(listening(example)) == 1
    move(example, job_id, 4)
    hint(example, job_id)
    assert all(watching.sees(done(4)) for watching in crowd)
    # A subscriber from before the hub's first look was shown the job's state of that time, too.
    assert len({frame for watching in crowd for frame in watching.frames if '"done": 4' in frame}) == 1


def test_announcement_of_a_process_reaches_another(example: ExampleInstallation, hinted: Hub) -> None:
    job_id = example.enqueue({"order_ids": [1]})
    watching = join(example, hinted)
    with hub_of(example, sweep=3600) as elsewhere:
        move(example, job_id, 2)
        elsewhere.announce(example.one.id, job_id)
        assert watching.sees(done(2))
