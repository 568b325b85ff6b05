"""A child's kept log lines of its jobs, and their reader in the parent."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from msgspec.json import encode

from turno.jobs.job import Batch, Claim
from turno.runner.line_ring import CAPACITY, HEAD, LONGEST, SIZE, TAIL, KeptLines, Line, LineRing
from turno.runner.shared_state import SharedState
from turno.tenancy.identity.tenant import HandlerLogin

LOGIN = HandlerLogin(slug="suc0001", schema="t_0123456789ab", role="r", epoch=0)
log = logging.getLogger("shop.billing")


@contextmanager
def at_work(shared: SharedState, batch: Batch, level: str = "INFO") -> Iterator[None]:
    kept = KeptLines(shared, level)
    shared.next_batch()
    kept.next_batch(batch)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    log.addHandler(kept)
    try:
        shared.works(0)
        yield
    finally:
        log.removeHandler(kept)
        log.setLevel(logging.NOTSET)
        log.propagate = True


def a_batch(jobs: int = 1) -> Batch:
    return tuple(
        Claim(job_id=uuid4(), token=uuid4(), attempt=1, type="faulty", version=1, tenant_id=1, login=LOGIN)
        for _ in range(jobs)
    )


def texts(shared: SharedState) -> list[str]:
    return [line.text for line in shared.lines.take()]


def test_the_lines_of_each_job_are_its_own_and_numbered() -> None:
    shared = SharedState()
    with at_work(shared, a_batch(2)):
        log.info("first")
        log.info("second of %s", 2)
        shared.rests()
        log.info("between two jobs")
        shared.works(1)
        log.warning("of the next")
    result = [(line.job, line.number, line.level, line.logger, line.text) for line in shared.lines.take()]
    assert result == [
        (0, 1, "INFO", "shop.billing", "first"),
        (0, 2, "INFO", "shop.billing", "second of 2"),
        (1, 1, "WARNING", "shop.billing", "of the next"),
    ]
    assert shared.lines.take() == []


def test_lines_below_the_level_are_not_kept() -> None:
    shared = SharedState()
    with at_work(shared, a_batch(), "WARNING"):
        log.info("news")
        log.warning("a warning")
    assert texts(shared) == ["a warning"]


def test_line_of_another_thread_is_kept_with_its_job_id() -> None:
    shared, (mine,) = SharedState(), a_batch()
    with at_work(shared, (mine,)):
        for job_id in (None, str(uuid4()), str(mine.job_id)):
            extra = {"job_id": job_id} if job_id else {}
            thread = threading.Thread(target=log.info, args=("of %s", job_id), kwargs={"extra": extra})
            thread.start()
            thread.join()
    assert texts(shared) == [f"of {mine.job_id}"]


def test_cut_line_keeps_its_exception() -> None:
    shared = SharedState()
    with at_work(shared, a_batch()):
        log.info("%s", "x" * 10_000)
        log.info("a\0b \udc80")
        try:
            int("no such order")
        except ValueError:
            log.exception("it failed")
    first, second, third = texts(shared)
    assert len(first) == LONGEST
    assert second == "a\ufffdb ?"
    assert third.startswith("it failed\nTraceback ")
    assert third.endswith("'no such order'")


def a_line(number: int, text: str = "x" * 1000) -> Line:
    return Line(1, 0, number, 1.5, "INFO", "shop", text)


def size(line: Line) -> int:
    return len(encode(line)) + 1


@pytest.mark.parametrize("length", [0, 1, 999, 16_000])
def test_the_newest_lines_are_there_when_there_were_too_many(length: int) -> None:
    ring = LineRing(memoryview(bytearray(SIZE)))
    for number in range(1, 20_000 // (length // 100 + 1)):
        ring.put(a_line(number, "x" * length))
    result = ring.take()
    assert result[-1].number == number
    assert [line.number for line in result] == list(range(result[0].number, number + 1))
    assert CAPACITY - 2 * size(result[0]) < sum(map(size, result)) <= CAPACITY
    assert {line.text for line in result} == {"x" * length}


def test_lines_overwritten_during_the_read_are_left_out() -> None:
    memory = memoryview(bytearray(SIZE))
    ring, words = LineRing(memory), memory[:16].cast("q")
    for number in range(1, 11):
        ring.put(a_line(number))
    copied, each = ring._copy, size(a_line(1))

    def slowly(start: int, end: int) -> bytes:
        result = copied(start, end)
        words[TAIL] = 3 * each
        return result

    ring._copy = slowly  # type: ignore[method-assign]
    assert [line.number for line in ring.take()] == list(range(4, 11))


def test_a_child_that_writes_nonsense_does_its_parent_no_harm() -> None:
    memory = memoryview(bytearray(SIZE))
    ring, words = LineRing(memory), memory[:16].cast("q")
    memory[16:] = b"\xff" * CAPACITY
    for head, tail in ((7, 0), (-5, 0), (1 << 62, 0), (CAPACITY, -9), (3, 1 << 40)):
        words[HEAD], words[TAIL] = head, tail
        assert isinstance(ring.take(), list)


@pytest.mark.parametrize("text", [b'[1,-9,1,1.5,"INFO","shop","x"]', b'[1,0,1,1.5,"INFO","shop","\xff"]', b"[" * 9000])
def test_line_of_another_form_is_left_out(text: bytes) -> None:
    memory = memoryview(bytearray(SIZE))
    ring, words = LineRing(memory), memory[:16].cast("q")
    memory[16 : 17 + len(text)] = text + b"\n"
    words[HEAD] = len(text) + 1
    ring.put(a_line(2))
    assert ring.take() == [a_line(2)]
