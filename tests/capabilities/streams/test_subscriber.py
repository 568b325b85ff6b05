"""A subscriber keeps the latest state of each object, and bounds its memory."""

from typing import Any
from uuid import uuid4

import pytest

from tests.subscribers import TENANT, state, subscriber
from turno.capabilities.streams.stream_events import StreamEvents
from turno.capabilities.streams.subscriber import MOST_REMEMBERED, MOST_WAITING, CloseReason, State
from turno.capabilities.streams.tenant_subscribers import TenantSubscribers


def test_backlog_keeps_the_latest_state_of_each_object() -> None:
    first, second = uuid4(), uuid4()
    watching = subscriber()
    for number in (1, 2, 3):
        watching.offer(state(b"one %d" % number, key=first, revision=number))
    watching.offer(state(b"two", key=second))
    assert watching.take() == ([b"one 3", b"two"], None)
    assert watching.take() == ([], None)


def test_nothing_older_or_equal_follows_a_state() -> None:
    key = uuid4()
    watching = subscriber()
    for revision, label in ((5, "scheduled"), (4, "waiting"), (5, "scheduled"), (5, "waiting")):
        watching.offer(state(b"%d %s" % (revision, label.encode()), key=key, revision=revision, label=label))
        frames = watching.take()[0]
        assert frames == {(5, "scheduled"): frames, (5, "waiting"): [b"5 waiting"]}.get((revision, label), [])


def test_slow_reader_is_dropped_beyond_its_backlog() -> None:
    watching = subscriber()
    for _ in range(MOST_WAITING + 1):
        watching.offer(state())
    assert watching.take() == ([], CloseReason.TOO_SLOW)
    watching.offer(state())
    assert watching.take()[0] == []


def test_memory_of_a_subscriber_is_bounded() -> None:
    watching = subscriber()
    for _ in range(MOST_REMEMBERED + 50):
        watching.offer(state())
        watching.take()
    assert len(watching._seen) == MOST_REMEMBERED


def test_the_first_reason_to_end_counts() -> None:
    watching = subscriber()
    watching.end(CloseReason.JOB_ENDED)
    watching.end(CloseReason.SHUTTING_DOWN)
    assert watching.take() == ([], CloseReason.JOB_ENDED)


@pytest.mark.parametrize(
    ("user", "watched", "operator", "shown"),
    [
        ("ana", None, False, True),
        ("ben", None, False, False),
        ("ben", None, True, False),
        ("ana", "job", False, True),
        ("ben", "job", False, False),
        ("ben", "job", True, True),
        ("ana", "other", False, False),
        ("ben", "other", True, False),
    ],
)
def test_stream_shows_exactly_the_visible_jobs(
    user: str,
    watched: str | None,
    operator: bool,  # noqa: FBT001 - a column of the table
    shown: bool,  # noqa: FBT001 - another
) -> None:
    ids = {"job": uuid4(), "other": uuid4()}
    view = subscriber(user=user, job_id=ids[watched] if watched else None, operator=operator).view
    assert view.shows(ids["job"], "ana") is shown


STANDING = {"revision": 1, "progress_revision": 0, "run_at": None, "now": None, "lacks": None}


class Frame(StreamEvents):
    """Frames a job as the reader's permissions."""

    def job(self, row: dict[str, Any], *, operator: bool, admin: bool = False) -> State:
        return state(b"admin" if admin else b"operator" if operator else b"user", key=row["id"])


def test_user_operator_and_admin_receive_separate_frames() -> None:
    viewers = {
        b"admin": subscriber(user="root", operator=True, everybody=True, admin=True),
        b"operator": subscriber(user="eva", operator=True, everybody=True),
        b"user": subscriber(),
    }
    tenant = TenantSubscribers(TENANT, due=0.0)
    tenant.subscribers = frozenset(viewers.values())
    tenant.show_job({"id": uuid4(), "user_id": "ana", "finished_at": None} | STANDING, Frame())
    assert {name: viewer.take()[0] for name, viewer in viewers.items()} == {name: [name] for name in viewers}
