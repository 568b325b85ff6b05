"""Children at a server that another replaced are killed; after a restart of the same server none is."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from turno.worker import crash_reasons, session_watch
from turno.worker.session_watch import PERIOD, SessionWatch

if TYPE_CHECKING:
    from turno.worker.child import Child

FIRST = session_watch.Server(started_at=datetime(2030, 1, 1, tzinfo=UTC), address=("10.0.0.1", 5432), timeline="1")
RESTARTED = replace(FIRST, started_at=FIRST.started_at + timedelta(hours=1))


@pytest.mark.parametrize(
    ("later", "killed"),
    [
        (FIRST, []),
        (RESTARTED, []),
        (replace(RESTARTED, address=("10.0.0.2", 5432)), [crash_reasons.SERVER_REPLACED]),
        (replace(RESTARTED, timeline="2"), [crash_reasons.SERVER_REPLACED]),
    ],
)
def test_children_at_a_replaced_server_are_killed(
    monkeypatch: pytest.MonkeyPatch, later: session_watch.Server, killed: list[str]
) -> None:
    servers = iter([FIRST, later, later])

    def measure(_engine: Any, *, more_than: int) -> session_watch.Load:
        assert more_than > 0
        return session_watch.Load(server=next(servers), lock_table=10_000, locks=0, largest={}, notifications=0)

    monkeypatch.setattr(session_watch, "measure", measure)
    moments = count(0, PERIOD)
    watch = SessionWatch(cast("Any", SimpleNamespace(again_at=0)), clock=lambda: next(moments))
    causes = list[str]()
    child = cast("Child", SimpleNamespace(kill=causes.append, backend=1, in_transaction_since=None, current=None))
    for _ in range(3):
        watch.look([child])
    assert causes == killed
