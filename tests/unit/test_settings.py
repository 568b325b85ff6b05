from pathlib import Path

import pytest

from turno.capability import backends
from turno.errors import InvalidSettings
from turno.settings import Settings


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = Settings.read({})
    assert settings.queue_backend == "exec"
    assert settings.enable_background_jobs is True
    assert settings.exec_max_processes == 4


def test_an_empty_variable_means_the_default() -> None:
    assert Settings.read({"QUEUE_BACKEND": ""}) == Settings.read({})


def test_an_unknown_backend_is_refused_naming_the_allowed_values() -> None:
    with pytest.raises(InvalidSettings) as refused:
        Settings.read({"QUEUE_BACKEND": "redis"})
    assert "QUEUE_BACKEND='redis'" in str(refused.value)
    for backend in backends():
        assert backend in str(refused.value)


def test_a_backend_of_a_disabled_capability_is_refused() -> None:
    with pytest.raises(InvalidSettings, match=r"QUEUE_CANARY_BACKEND='rabbitmq': expected one of: exec, pool$"):
        Settings.read({"QUEUE_CANARY_BACKEND": "rabbitmq", "CAPABILITIES": "all-but-rabbitmq"})


def test_every_wrong_setting_is_named_at_once() -> None:
    with pytest.raises(InvalidSettings) as refused:
        Settings.read({"EXEC_MAX_PROCESSES": "many", "RETENTION_DAYS": "0", "ENABLE_BACKGROUND_JOBS": "maybe"})
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"HEARTBEAT_SECONDS": "20", "DEAD_AFTER_SECONDS": "30"},
        {"HEARTBEAT_SECONDS": "nan"},
        {"HEARTBEAT_SECONDS": "soon"},
        {"JWT_ALGORITHMS": "HS256,none"},
        {"LOG_LEVEL": "chatty"},
        {"EXEC_MAX_PROCESSES": "-1"},
        {"EXEC_MAX_PROCESSES": "1_0"},
        {"EXEC_MAX_PROCESSES": "٣"},
        {"ENABLE_BACKGROUND_JOBS": "yes"},
        {"TRUSTED_PROXIES": "10.0.0.5,proxy"},
        {"ALLOWED_ORIGINS": "https://erp.example/path"},
        {"PUBLIC_URL": "HTTPS://turno.example"},
        {"POOL_SESSIONS_PER_CHILD": "0"},
    ],
)
def test_a_senseless_value_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings):
        Settings.read(wrong)


def test_what_a_command_needs_is_asked_for_by_name() -> None:
    with pytest.raises(InvalidSettings, match="MASTER_KEY"):
        Settings.read({"DATABASE_URL": "postgresql:///x"}).require("database_url", "master_key")


def test_the_slot_folder_is_one_per_installation_unless_set() -> None:
    one, other = (Settings.read({"DATABASE_URL": f"postgresql:///{name}"}) for name in "ab")
    assert one.slot_dir != other.slot_dir
    assert Settings.read({"EXEC_SLOT_DIR": "/run/turno"}).slot_dir == Path("/run/turno")


def test_no_secret_is_in_the_text_of_the_settings() -> None:
    environment = {"DATABASE_URL": "postgresql://u:hush@h/d", "MASTER_KEY": "hush" * 4, "JWT_KEY": "hush" * 8}
    assert "hush" not in repr(Settings.read(environment))
