"""The advice of `turno doctor` about settings, without a database."""

from __future__ import annotations

import pytest

from turno.commands.doctor import of_settings, sessions_of_a_host
from turno.settings import Settings

RIGHT = {
    "DATABASE_URL": "postgresql://localhost/shop",
    "TURNO_MASTER_KEY": "a master key of 32 characters or more",
    "TURNO_JWT_KEY": "a key that signs tokens, long enough",
    "TURNO_HANDLERS": "handlers:build_registry",
}


def problems(**changed: str) -> list[str]:
    return [advice.problem for advice in of_settings(RIGHT | changed)]


def test_right_settings_need_nothing() -> None:
    assert problems(HOME="/root", PORT="80", WEB_CONCURRENCY="2", QUEUE="x") == []


def test_a_setting_without_its_prefix_is_named() -> None:
    assert problems(RETENTION_DAYS="4") == ["RETENTION_DAYS is not a setting, TURNO_RETENTION_DAYS is"]


def test_advice_leaves_an_application_its_variables() -> None:
    assert problems(DATABASE_USER="shop", TURNO_RETENTION_DAYS="7", TURNO_VISIBLE="yes") == []


def test_all_wrong_settings_are_reported_at_once() -> None:
    wrong = problems(TURNO_QUEUE_BACKENDS="pool", TURNO_WEB_THREADS="many", TURNO_RETENTION_DAYS="0")
    names = {advice.partition("=")[0].partition(" ")[0] for advice in wrong}
    assert names == {"TURNO_QUEUE_BACKENDS", "TURNO_RETENTION_DAYS", "TURNO_WEB_THREADS"}


def test_required_settings_are_named() -> None:
    assert {advice.problem.partition(" ")[0] for advice in of_settings({})} == {
        "DATABASE_URL",
        "TURNO_MASTER_KEY",
        "TURNO_JWT_KEY",
        "TURNO_HANDLERS",
    }


@pytest.mark.parametrize(
    ("changed", "reply"),
    [
        ({"TURNO_HANDLERS": "no_such_shop:JOBS"}, "TURNO_HANDLERS=no_such_shop:JOBS"),
        ({"TURNO_MASTER_KEY": "short"}, "TURNO_MASTER_KEY"),
        ({"QUEUE_BACKEND": "rabbitmq"}, "RABBITMQ_URL"),
    ],
)
def test_path_in_a_setting_is_checked(changed: dict[str, str], reply: str) -> None:
    (problem,) = problems(**changed)
    assert reply in problem


@pytest.mark.parametrize(
    ("backend", "sessions"),
    [
        ("exec", 2 * (8 + 2 + 4 + 2) + 3 * (4 + 1) + 1),
        ("pool", 2 * (8 + 3 + 4 + 2) + 2 + 5 * (2 + 4)),
        ("rabbitmq", 2 * (8 + 3 + 4 + 2) + 3 + 5 * (2 + 4)),
    ],
)
def test_sessions_are_counted_as_the_documentation_counts_them(backend: str, sessions: int) -> None:
    settings = Settings.read({"TURNO_WEB_WORKERS": "2", "TURNO_WEB_THREADS": "8", "QUEUE_BACKEND": backend})
    assert sessions_of_a_host(settings) == sessions
