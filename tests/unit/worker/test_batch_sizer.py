"""How many jobs are a turn is learnt from how long they take."""

from __future__ import annotations

from turno.worker.batch_sizer import COLD, MOST, WITHIN, BatchSizer


def learnt(seconds: float, *, first: bool = False, times: int = 40) -> BatchSizer:
    lengths = BatchSizer()
    for _ in range(times):
        lengths.learn("odd", seconds, first=first)
    return lengths


def test_what_is_unknown_comes_one_at_a_time() -> None:
    assert learnt(0.001).of("unknown") == 1


def test_short_ones_are_believed_little_by_little_and_up_to_a_bound() -> None:
    seen = [learnt(0.0001, times=times).of("odd") for times in range(1, 40)]
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (1, MOST)


def test_a_turn_takes_no_longer_than_others_may_be_kept_waiting() -> None:
    assert learnt(WITHIN / 4).of("odd") in (3, 4)


def test_a_hiccup_is_forgiven_and_a_long_job_is_not() -> None:
    lengths = learnt(0.001)
    lengths.learn("odd", WITHIN, first=False)
    assert 1 < lengths.of("odd") < MOST
    lengths.learn("odd", 1, first=False)
    assert lengths.of("odd") == 1


def test_a_cold_session_keeps_nobody_from_trying_more() -> None:
    lengths = learnt(0.9 * COLD, first=True)
    assert lengths.of("odd") == 2
    for _ in range(40):
        lengths.learn("odd", 0.0001, first=False)
    assert lengths.of("odd") == MOST


def test_a_first_that_was_slower_than_any_session_is_believed() -> None:
    lengths = learnt(0.0001)
    lengths.learn("odd", COLD, first=True)
    assert lengths.of("odd") == 1
