"""Counting wrong tokens: by address, by the minute, and in bounded memory."""

import logging

import pytest

from turno.web import auth
from turno.web.auth import WINDOW_SECONDS, WrongTokens


def test_an_address_may_try_again_in_the_next_minute() -> None:
    now = 0.0
    wrong = WrongTokens(2, clock=lambda: now)
    assert [wrong.count("a"), wrong.count("a"), wrong.count("b")] == [None, None, None]
    now = 20.0
    assert wrong.count("a") == WINDOW_SECONDS - 20
    now = WINDOW_SECONDS
    assert wrong.count("a") is None


def test_wrong_tokens_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    wrong = WrongTokens(2, clock=lambda: 0.0)
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            wrong.count("192.0.2.7")
    assert [record.getMessage() for record in caplog.records] == ["more than 2 wrong tokens a minute from 192.0.2.7"]


def test_without_a_limit_nothing_is_kept() -> None:
    wrong = WrongTokens(0)
    assert {wrong.count("a") for _ in range(100)} == {None}


def test_ever_new_addresses_fill_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_ADDRESSES", 3)
    wrong = WrongTokens(1, clock=lambda: 0.0)
    counted = [wrong.count(f"address {number}") for number in range(5)]
    assert counted == [None, None, None, None, WINDOW_SECONDS]
