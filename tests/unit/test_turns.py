from collections import Counter

from app.jobs.job import Priority
from app.queues.turns import Turns

URGENT, NORMAL, LOW = Priority


def test_while_all_wait_each_gets_its_weight() -> None:
    turns = Turns()
    assert Counter(turns.pick(list(Priority)) for _ in range(170)) == {URGENT: 120, NORMAL: 40, LOW: 10}


def test_what_waits_alone_has_every_turn() -> None:
    turns = Turns()
    assert {turns.pick([LOW]) for _ in range(50)} == {LOW}


def test_a_band_that_was_empty_has_saved_up_nothing() -> None:
    turns = Turns()
    for _ in range(1000):
        turns.pick([URGENT])
    assert Counter(turns.pick([URGENT, LOW]) for _ in range(130)) == {URGENT: 120, LOW: 10}


def test_an_urgent_message_is_next_however_long_lower_ones_went_on() -> None:
    turns = Turns()
    for _ in range(1000):
        turns.pick([LOW])
    assert turns.pick([URGENT, LOW]) == URGENT
