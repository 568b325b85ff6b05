"""The next notification of watchers after a slow notification."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from turno.jobs.job import Claim
from turno.store.engine.engine import Engine
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker import running_jobs
from turno.worker.running_jobs import MAX_PAUSE, ChangeNotifier

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

LOGIN = HandlerLogin(slug="suc0001", schema="t_000000000001", role="r", epoch=0)


class SlowLink(Engine):
    """Notifies no watcher, and takes three seconds for it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reply = 0

    def announce_changes(self, payloads: Sequence[str]) -> None:
        del payloads
        self.now += 3.0
        self.reply += 1


def test_next_notification_is_due_soon_after_a_slow_one(monkeypatch: pytest.MonkeyPatch) -> None:
    link = SlowLink()
    monkeypatch.setattr(running_jobs, "monotonic", lambda: link.now)
    telling = ChangeNotifier(link)
    for _ in range(2):
        claim = Claim(
            job_id=uuid4(), token=uuid4(), attempt=1, type="faulty", version=1, tenant_id=1, login=LOGIN
        )  # fmt: skip
        telling.changed((claim,))
        telling.flush()
        link.now += MAX_PAUSE
    assert link.reply == 2
