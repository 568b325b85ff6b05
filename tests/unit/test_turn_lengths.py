"""How many jobs are a turn is learnt from how long they take."""

from __future__ import annotations

from app.work.turn_lengths import MOST, WITHIN, TurnLengths


def test_what_is_unknown_comes_one_at_a_time() -> None:
    lengths = TurnLengths()
    lengths.learn("fast", 0.001)
    assert lengths.of("unknown") == 1


def test_fast_ones_are_believed_little_by_little_and_up_to_a_bound() -> None:
    lengths, seen = TurnLengths(), []
    for _ in range(40):
        lengths.learn("fast", 0.0001)
        seen.append(lengths.of("fast"))
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (1, MOST)


def test_a_turn_takes_no_longer_than_others_may_be_kept_waiting() -> None:
    lengths = TurnLengths()
    for _ in range(40):
        lengths.learn("middling", WITHIN / 4)
    assert lengths.of("middling") in (3, 4)


def test_a_slow_one_is_believed_at_once() -> None:
    lengths = TurnLengths()
    for _ in range(40):
        lengths.learn("odd", 0.0001)
    lengths.learn("odd", WITHIN)
    assert lengths.of("odd") == 1
