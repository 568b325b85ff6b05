"""The claims of a resident worker: one after a silence, then for all free children, several jobs each where short."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import monotonic
from uuid import UUID, uuid4

import pytest

from tests.misbehaving_handlers import REGISTRY, Faulty
from turno.jobs.handler import Registry
from turno.jobs.job import Batch, Claim
from turno.store.engine.claims import Claimer
from turno.store.engine.engine import Engine
from turno.tenancy.identity.tenant import HandlerLogin
from turno.worker.sources.polling import AFTER_END, LARGEST_BATCH, PollTimer, PoolSource

WORKER = uuid4()
LOGIN = HandlerLogin(slug="suc0001", schema="t_0123456789ab", role="r", epoch=0)


def a_claim(kind: str) -> Claim:
    return Claim(job_id=uuid4(), token=uuid4(), attempt=1, type=kind, version=1, tenant_id=1, login=LOGIN)


class FakeEngine(Engine):
    """Answers claims with `waiting`, one turn after another, and records the requested slots."""

    def __init__(self) -> None:
        self.waiting: list[str] = []
        self.requested: list[int] = []
        self.without: set[str] = set()

    def notified(self, *_: object) -> bool:
        return True

    def claim(self, slots: int, sizes: Callable[[str], int], without: Collection[str]) -> list[Batch]:
        self.without = set(without)
        self.requested.append(slots)
        result: list[Batch] = []
        while self.waiting and len(result) < slots:
            kind = self.waiting[0]
            turn = self.waiting[: sizes(kind)]
            del self.waiting[: len(turn)]
            result.append(tuple(a_claim(kind) for _ in turn))
        return result


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    monkeypatch.setattr(Claimer, "claim", lambda _claimer, engine, _worker, **options: engine.claim(**options))
    return FakeEngine()


@pytest.fixture
def source(engine: FakeEngine) -> PoolSource:
    return PoolSource(engine=engine, hints=engine, registry=REGISTRY, chance=lambda: 0.5)


def take(source: PoolSource, worker: UUID = WORKER, free: int = 3) -> list[int]:
    """How many claims each batch has."""
    return [len(batch) for batch in source.take(worker, free)]


def test_an_end_is_followed_by_a_look_soon(source: PoolSource) -> None:
    """It may have let a part's job run, or the next of its key, and no hint announces these."""
    assert take(source) == take(source) == []
    assert source.poll_in() > AFTER_END
    source.learn("faulty", 0.001)
    assert source.poll_in() <= AFTER_END


def test_source_claims_one_after_silence_then_all_free(source: PoolSource, engine: FakeEngine) -> None:
    engine.waiting = ["faulty"] * 3
    assert [take(source), take(source), take(source)] == [[1], [1, 1], []]
    assert take(source) == []
    assert engine.requested == [1, 3, 3]


def test_empty_source_waits_for_a_hint_or_its_time(source: PoolSource, engine: FakeEngine) -> None:
    assert take(source) == []
    engine.waiting = ["faulty"]
    assert take(source) == []
    assert engine.requested == [1]
    assert 0 < source.poll_in() < 2


def test_empty_source_looks_at_the_next_due_time() -> None:
    timer = PollTimer()
    timer.record_poll(0, chance=0.5, due_in=0.02)
    assert 0 < timer.due - monotonic() <= 0.02
    timer.record_poll(0, chance=0.5, due_in=60)
    assert 0 < timer.due - monotonic() <= 2


def test_empty_reserve_keeps_no_free_child_waiting(source: PoolSource, engine: FakeEngine) -> None:
    engine.waiting = ["faulty"]
    assert take(source) == [1]
    assert source.take(WORKER, 1, {"suc0001"}) == []
    assert engine.without == {"suc0001"}
    assert source.poll_in() > 0
    engine.waiting = ["faulty"] * 3
    assert take(source) == [1, 1, 1]
    assert engine.without == set()


def test_a_hint_has_it_look_for_the_reserve_too(source: PoolSource, engine: FakeEngine) -> None:
    for _ in range(2):
        assert source.take(WORKER, 1, {"suc0001"}) == []
    assert engine.requested == [1]
    source.read_hints()
    engine.waiting = ["faulty"]
    assert len(source.take(WORKER, 1, {"suc0001"})) == 1


def test_short_jobs_come_several_at_a_time_once_there_are_many(source: PoolSource, engine: FakeEngine) -> None:
    for _ in range(40):
        source.learn("faulty", 0.0001)
    engine.waiting = ["faulty"] * (1 + LARGEST_BATCH + 2)
    assert [take(source, free=1) for _ in range(3)] == [[1], [LARGEST_BATCH], [2]]


def test_report_is_claimed_alone(engine: FakeEngine) -> None:
    """Its claim brings all branches of its company along."""
    registry = Registry({"report": "tests.unit.worker.test_pool_source:Report"})
    source = PoolSource(engine=engine, hints=engine, registry=registry, chance=lambda: 0.5)
    for _ in range(40):
        source.learn("report", 0.0001)
    engine.waiting = ["report"] * 3
    assert [take(source, free=1) for _ in range(3)] == [[1], [1], [1]]


class Report(Faulty):
    """Reads its company."""

    type = "report"
    reads_company = True
