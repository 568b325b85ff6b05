from dataclasses import fields
from pathlib import Path

import pytest

from turno.capability import backends
from turno.errors import InvalidSettings
from turno.settings import Limits, Settings


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.read({})
    assert settings.queue_backend == "exec"
    assert settings.enable_background_jobs is True
    assert settings.max_children == 4


def test_an_empty_variable_means_the_default() -> None:
    assert Settings.read({"QUEUE_BACKEND": ""}) == Settings.read({})


def test_an_unknown_backend_is_refused_naming_the_allowed_values() -> None:
    with pytest.raises(InvalidSettings) as refused:
        Settings.read({"QUEUE_BACKEND": "redis"})
    assert "QUEUE_BACKEND='redis'" in str(refused.value)
    for backend in backends():
        assert backend in str(refused.value)


def test_a_backend_of_a_disabled_capability_is_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"QUEUE_BACKEND='rabbitmq': expected one of: exec, pool$"):
        Settings.read({"QUEUE_BACKEND": "rabbitmq", "TURNO_CAPABILITIES": "all-but-rabbitmq"})


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(InvalidSettings) as refused:
        Settings.read(
            {"TURNO_MAX_CHILDREN": "many", "TURNO_RETENTION_DAYS": "0", "TURNO_ENABLE_BACKGROUND_JOBS": "maybe"}
        )
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"TURNO_HEARTBEAT_SECONDS": "20", "TURNO_DEAD_AFTER_SECONDS": "30"},
        {"TURNO_HEARTBEAT_SECONDS": "nan"},
        {"TURNO_HEARTBEAT_SECONDS": "soon"},
        {"TURNO_LOG_LEVEL": "chatty"},
        {"TURNO_MAX_CHILDREN": "-1"},
        {"TURNO_MAX_CHILDREN": "1_0"},
        {"TURNO_MAX_CHILDREN": "٣"},
        {"TURNO_ENABLE_BACKGROUND_JOBS": "yes"},
        {"TURNO_TRUSTED_PROXIES": "10.0.0.5,proxy"},
        {"TURNO_ALLOWED_ORIGINS": "https://erp.example/path"},
        {"TURNO_PUBLIC_URL": "HTTPS://turno.example"},
        {"TURNO_LIMITS": "child_sessions=0"},
        {"TURNO_LIMITS": "child_sessions"},
        {"TURNO_LIMITS": "children=2"},
        {"TURNO_LIMITS": "file_mb=65"},
        {"TURNO_ALERT_TO": "ops@shop.example"},
        {"TURNO_ALERT_TO": "mailto:ops@shop.example"},
        {"TURNO_ALERT_QUIET_HOURS": "22:00-07:00 Nowhere/City"},
    ],
)
def test_a_senseless_value_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings):
        Settings.read(wrong)


def test_missing_setting_of_a_command_is_named() -> None:
    with pytest.raises(InvalidSettings, match="TURNO_MASTER_KEY"):
        Settings.read({"DATABASE_URL": "postgresql:///x"}).require("database_url", "master_key")


def test_the_slot_folder_is_one_per_installation_unless_set() -> None:
    first, other = (Settings.read({"DATABASE_URL": f"postgresql:///{name}"}) for name in "ab")
    assert first.slot_dir != other.slot_dir
    assert Settings.read({"TURNO_RUN_FOLDER": "/run/turno"}).slot_dir == Path("/run/turno")


def test_no_secret_is_in_the_text_of_the_settings() -> None:
    environment = {
        "DATABASE_URL": "postgresql://u:hush@h/d",
        "TURNO_MASTER_KEY": "hush" * 4,
        "TURNO_JWT_KEY": "hush" * 8,
    }
    assert "hush" not in repr(Settings.read(environment))


def test_only_three_settings_have_no_prefix() -> None:
    read = Settings.read({"DATABASE_URL": "x", "QUEUE_BACKEND": "pool", "RABBITMQ_URL": "y", "MASTER_KEY": "k"})
    assert (read.database_url, read.queue_backend, read.rabbitmq_url, read.master_key) == ("x", "pool", "y", "")


def test_an_unknown_variable_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(
        InvalidSettings, match="TURNO_QUEUE_BACKENDS is not a setting; the nearest name is TURNO_QUEUE_BACKEND"
    ):
        Settings.read({"TURNO_QUEUE_BACKENDS": "pool"})


def test_there_are_at_most_forty_settings() -> None:
    assert len(fields(Settings)) <= 40
    assert [setting.name for setting in fields(Settings)][:5] == [
        "database_url",
        "master_key",
        "jwt_key",
        "handlers",
        "public_url",
    ]


def test_limits_are_changed_by_name() -> None:
    limits = Settings.read({"TURNO_LIMITS": "streams=5, pending_jobs_per_user=0"}).limits
    assert limits == Limits(streams=5, pending_jobs_per_user=0)
    assert limits.pending is None
    assert Limits.read(str(limits)) == limits
