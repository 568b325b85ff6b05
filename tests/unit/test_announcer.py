"""When those who watch are told again after a telling took long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from app.jobs.claim import Claim
from app.work import announcer
from app.work.announcer import LONGEST_REST, Announcer
from app.work.engine import EngineLink
from tenants.tenant import HandlerLogin

if TYPE_CHECKING:
    import pytest

LOGIN = HandlerLogin(slug="suc0001", schema="t_000000000001", role="r", epoch=0)


class SlowLink(EngineLink):
    """Tells nobody, and takes three seconds for it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.told = 0

    def run(self, *_operation: Any, **_options: Any) -> Any:
        self.now += 3.0
        self.told += 1


def test_after_a_slow_telling_the_next_one_is_due_within_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    link = SlowLink()
    monkeypatch.setattr(announcer, "monotonic", lambda: link.now)
    telling = Announcer(link)
    for _ in range(2):
        claim = Claim(
            job_id=uuid4(), token=uuid4(), attempt=1, type="odd", version=1, tenant_id=1, login=LOGIN
        )  # fmt: skip
        telling.changed((claim,))
        telling.tell()
        link.now += LONGEST_REST
    assert link.told == 2
