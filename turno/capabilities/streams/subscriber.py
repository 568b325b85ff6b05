"""One stream of one user: its visible jobs and its queue of unsent events."""

import asyncio
import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Self
from uuid import UUID

from turno.tenancy.identity.tenant import Tenant

if TYPE_CHECKING:
    from turno.web.admission import Scope

# Jobs and notifications that may wait for one reader; of each only the latest state waits.
MOST_WAITING = 500
# States remembered, so that none is sent again; the oldest are forgotten.
MOST_REMEMBERED = 2_000


class CloseReason(StrEnum):
    """Why the server ends a stream."""

    JOB_ENDED = "job-ended"
    JOB_GONE = "job-gone"
    SESSION_OVER = "session-over"
    SHUTTING_DOWN = "shutting-down"
    TOO_SLOW = "too-slow"


@dataclass(frozen=True, slots=True)
class State:
    """A job or notification, framed as an event. `label` may change by time alone, while `revision` does not."""

    key: Hashable
    revision: int
    label: str
    frame: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The content of a stream: one job, or with `job_id` None all jobs and notifications of its user.

    An operator may watch one job of any user, and with `everybody` all jobs of the tenant; only admins see secrets.
    `issued_at` and `until` bound the session in Unix seconds.
    """

    tenant: Tenant
    user: str
    job_id: UUID | None
    operator: bool
    issued_at: float
    until: float
    everybody: bool = False
    admin: bool = False

    @classmethod
    def of(cls, scope: "Scope", job_id: UUID | None, *, until: float = math.inf, everybody: bool = False) -> Self:
        """Return the view of a request's user; it ends with the session, or before at `until`."""
        principal = scope.principal
        return cls(
            tenant=scope.tenant,
            user=principal.user,
            job_id=job_id,
            operator=principal.operator,
            admin=principal.role == "admin",
            issued_at=principal.issued_at,
            until=min(principal.expires_at, until),
            everybody=everybody,
        )

    def shows(self, job_id: UUID, user: str) -> bool:
        """Return whether this job belongs into this stream."""
        if self.job_id is None:
            return self.everybody or self.user == user
        return self.job_id == job_id and (self.operator or self.user == user)


class Subscriber:
    """Keeps for its reader the latest state of each job and notification, and never offers an older one.

    Filled by one thread and emptied by another; `wake` is called, from any thread, when an event is queued.
    """

    __slots__ = ("_close_reason", "_lock", "_seen", "_waiting", "view", "wake")

    def __init__(self, view: View) -> None:
        self.view = view
        self.wake: Callable[[], object] = lambda: None
        self._lock = Lock()
        self._waiting: dict[Hashable, bytes] = {}
        self._seen: dict[Hashable, tuple[int, str]] = {}
        self._close_reason: CloseReason | None = None

    def offer(self, state: State) -> None:
        """Have a state sent, unless the reader has it or a later one."""
        with self._lock:
            before = self._seen.get(state.key)
            if self._close_reason or (
                before and (before[0] > state.revision or before == (state.revision, state.label))
            ):
                return
            self._remember(state)
            self._waiting[state.key] = state.frame
            if len(self._waiting) > MOST_WAITING:
                self._waiting.clear()
                self._close_reason = CloseReason.TOO_SLOW
        self.wake()

    def end(self, reason: CloseReason) -> None:
        """End the stream after its unsent events; the first reason counts."""
        with self._lock:
            self._close_reason = self._close_reason or reason
        self.wake()

    def take(self) -> tuple[Sequence[bytes], CloseReason | None]:
        """Return the unsent events, oldest first, and the reason if the stream ends after them."""
        with self._lock:
            waiting, self._waiting = list(self._waiting.values()), {}
            return waiting, self._close_reason

    def wakes_task(self) -> asyncio.Event:
        """Return an event of the running event loop for the task that takes."""
        event = asyncio.Event()
        self.wake = partial(_wake_task, asyncio.get_running_loop(), event)
        return event

    def _remember(self, state: State) -> None:
        self._seen[state.key] = (state.revision, state.label)
        if len(self._seen) > MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]


def _wake_task(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed: the process ends
        loop.call_soon_threadsafe(event.set)
