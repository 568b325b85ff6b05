"""Play a few sessions' steps in every order, as PostgreSQL's isolation tester does.

A session is a real connection with a separate thread. The next step runs when every session has finished its step or
waits for a lock of another session, according to the server. A step for a session that waits is played as soon as it
waits no more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg

from turno.errors import ClaimLost
from turno.testing.wait import wait_until

Session = psycopg.Connection[Any]
Step = Callable[[Session], object]
PATIENCE = 30.0


def interleavings(lengths: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Yield every order of the sessions' steps, each session's own order kept, as names of sessions."""
    if not any(lengths.values()):
        yield ()
    for name, left in lengths.items():
        if left:
            for further in interleavings({**lengths, name: left - 1}):
                yield (name, *further)


class Stage:
    """Plays sessions against each other; `watch` is a connection that may see their locks."""

    def __init__(self, watch: Session) -> None:
        self._watch = watch

    def play(
        self, order: Sequence[str], sessions: Mapping[str, Session], steps: Mapping[str, Sequence[Step]]
    ) -> dict[str, list[str]]:
        """Return the answers of each session's steps: a word each, an error's code for a failed step."""
        left = {name: deque(mine) for name, mine in steps.items()}
        played: dict[str, list[Future[str]]] = {name: [] for name in steps}
        threads = {name: ThreadPoolExecutor(1, thread_name_prefix=name) for name in steps}
        try:
            for name in order:
                played[name].append(threads[name].submit(_answer, left[name].popleft(), sessions[name]))
                assert wait_until(lambda: self._settled(sessions, played), within=PATIENCE, every=0.001), order
            finished = [future for mine in played.values() for future in mine]
            assert wait_until(lambda: all(future.done() for future in finished), within=PATIENCE, every=0.001), order
        finally:
            for thread in threads.values():
                thread.shutdown(wait=False)
        return {name: [future.result() for future in mine] for name, mine in played.items()}

    def _settled(self, sessions: Mapping[str, Session], played: Mapping[str, Sequence[Future[str]]]) -> bool:
        busy = [sessions[name].info.backend_pid for name, mine in played.items() if mine and not mine[-1].done()]
        if not busy:
            return True
        everybody = [session.info.backend_pid for session in sessions.values() if not session.closed]
        # The lock manager's present state, unlike pg_stat_activity, which shows the end of a wait late.
        waiting = self._watch.execute(
            "SELECT count(*) FROM unnest(%s::integer[]) AS busy (pid) WHERE pg_blocking_pids(pid) && %s::integer[]",
            (busy, everybody),
        ).fetchone()
        return waiting == (len(busy),)


def _answer(step: Step, session: Session) -> str:
    if session.closed:
        return ""  # has answered
    try:
        return str(step(session) or "")
    except ClaimLost:
        return "lost"
    except psycopg.Error as error:
        return "ended" if session.closed else str(error.sqlstate)
