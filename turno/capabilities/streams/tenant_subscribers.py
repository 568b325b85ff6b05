"""One tenant's subscribers, and which states they were sent."""

from time import monotonic
from typing import Any
from uuid import UUID

from turno.capabilities.streams.stream_events import StreamEvents
from turno.capabilities.streams.subscriber import CloseReason, State, Subscriber
from turno.tenancy.identity.tenant import Tenant

Row = dict[str, Any]
# Longer than the minute in which a job counts as just ended: during this time a comparison finds the end despite a lost
# hint.
REMEMBERED_SECONDS = 180.0
# Open jobs that are compared with the database; the end of any other job is found by its hint, or among jobs that ended
# recently.
MOST_FOLLOWED = 1_000


class TenantSubscribers:
    """Hands each row to subscribers that may see it, in the hub's thread; other threads add and remove subscribers."""

    def __init__(self, tenant: Tenant, *, due: float) -> None:
        self.tenant = tenant
        self.subscribers: frozenset[Subscriber] = frozenset()
        self.due = due  # when to compare again, on the monotonic clock
        self._standing: dict[UUID, tuple[int, bool, str | None]] = {}
        self._ended: dict[UUID, float] = {}

    @property
    def users(self) -> set[str]:
        """The users with a stream of all their jobs."""
        return {subscriber.view.user for subscriber in self.subscribers if subscriber.view.job_id is None}

    @property
    def watched_users(self) -> set[str] | None:
        """The users with a stream of all their jobs; None if an operator watches all users."""
        return None if any(subscriber.view.everybody for subscriber in self.subscribers) else self.users

    @property
    def watched(self) -> set[UUID]:
        """The jobs with a separate stream."""
        return {subscriber.view.job_id for subscriber in self.subscribers if subscriber.view.job_id is not None}

    @property
    def followed(self) -> set[UUID]:
        """The jobs to compare with the database: jobs with a stream, and jobs last shown as open."""
        return self.watched | self._standing.keys()

    def worth_reading(self, named: set[UUID]) -> set[UUID]:
        """Return which of the jobs named by a hint a subscriber may see."""
        return named if self.users else named & self.watched

    def changed(self, standings: list[Row], just_ended: list[UUID]) -> set[UUID]:
        """Return the jobs with a stored revision or label other than the last one sent."""
        moved = {
            row["id"]
            for row in standings
            if self._standing.get(row["id"]) != (row["revision"], row["due"], row["lacks"])
        }
        return moved | {job_id for job_id in just_ended if job_id not in self._ended}

    def remove_jobs(self, gone: set[UUID]) -> None:
        """Forget deleted jobs, and end their streams."""
        for job_id in gone:
            self._standing.pop(job_id, None)
        for subscriber in self.subscribers:
            if subscriber.view.job_id in gone:
                subscriber.end(CloseReason.JOB_GONE)

    def show_job(self, row: Row, events: StreamEvents) -> None:
        """Offer a job to every subscriber that may see it; end the streams of only this job once it has ended."""
        ended = row["finished_at"] is not None
        states: dict[tuple[bool, bool], State] = {}
        for subscriber in self.subscribers:
            view = subscriber.view
            if not view.shows(row["id"], row["user_id"]):
                continue
            rights = view.operator, view.admin
            if rights not in states:
                states[rights] = events.job(row, operator=view.operator, admin=view.admin)
            subscriber.offer(states[rights])
            if ended and view.job_id is not None:
                subscriber.end(CloseReason.JOB_ENDED)
        self._note(row, ended=ended)

    def show_notification(self, row: Row, events: StreamEvents) -> None:
        """Hand a notification to its user."""
        state = events.notification(row)
        for subscriber in self.subscribers:
            if subscriber.view.job_id is None and subscriber.view.user == row["user_id"]:
                subscriber.offer(state)

    def end_revoked(self, valid_from: float | None) -> None:
        """End the streams of tokens issued before `valid_from`; None: the tenant was removed."""
        for subscriber in self.subscribers:
            if valid_from is None or subscriber.view.issued_at < valid_from:
                subscriber.end(CloseReason.SESSION_OVER)

    def _note(self, row: Row, *, ended: bool) -> None:
        now = monotonic()
        if ended:
            self._standing.pop(row["id"], None)
            self._ended[row["id"]] = now
            for job_id in [old for old, at in self._ended.items() if at < now - REMEMBERED_SECONDS]:
                del self._ended[job_id]
        else:
            due = row["run_at"] is not None and row["run_at"] <= row["now"]
            self._standing[row["id"]] = (row["revision"] + row["progress_revision"], due, row["lacks"])
            if len(self._standing) > MOST_FOLLOWED:
                del self._standing[next(iter(self._standing))]
