from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from cli.servers import system_packages
from cli.servers.system_packages import SystemPackage, install, missing, no_service_starts, reason_not_to_install

if TYPE_CHECKING:
    from pathlib import Path

SHELL = SystemPackage(name="dash", marker="shell", programs=("no-such-shell", "sh"))
ABSENT = SystemPackage(name="absent", marker="absent", programs=("no-such-program",))


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    folder = tmp_path / "sbin"
    folder.mkdir()
    return folder / "policy-rc.d"


@pytest.fixture
def apt_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package manager that knows no packages until its lists are updated, and records its calls."""
    requested = tmp_path / "asked"
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\necho "$DEBIAN_FRONTEND $@" >>{requested}\n'
        f'case "$*" in *update) touch {tmp_path}/lists;; *) test -e {tmp_path}/lists;; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return requested


def test_a_package_is_missing_when_none_of_its_programs_is_found() -> None:
    assert missing([SHELL, ABSENT]) == [ABSENT]
    assert SHELL.require().name == "sh"
    with pytest.raises(LookupError, match=r"no-such-program is missing: install absent"):
        ABSENT.require()


def test_a_machine_without_apt_get_or_root_cannot_install(apt_get: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert reason_not_to_install() == "only root may run apt-get"
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert reason_not_to_install() is None
    monkeypatch.setenv("PATH", str(apt_get.parent))
    assert reason_not_to_install() == "there is no apt-get here"


def test_package_lists_are_fetched_only_when_missed(apt_get: Path, policy: Path) -> None:
    assert install([ABSENT], policy=policy)
    assert install([ABSENT], policy=policy)
    install_line = "noninteractive --quiet --yes --no-install-recommends install absent"
    assert apt_get.read_text().splitlines() == [
        install_line,
        "noninteractive --quiet update",
        install_line,
        install_line,
    ]
    assert not policy.exists()


def test_services_are_forbidden_only_meanwhile(policy: Path) -> None:
    with no_service_starts(policy):
        assert "exit 101" in policy.read_text()
        assert stat.S_IMODE(policy.stat().st_mode) == 0o755
    assert not policy.exists()


def test_existing_policy_is_restored_after_any_error(policy: Path) -> None:
    policy.write_text("exit 0")
    with pytest.raises(KeyboardInterrupt), no_service_starts(policy):
        raise KeyboardInterrupt
    assert policy.read_text() == "exit 0"
    assert list(policy.parent.iterdir()) == [policy]


def test_a_run_cut_short_earlier_does_not_lose_the_policy(policy: Path) -> None:
    policy.write_text(system_packages.FORBIDS_EVERY_START)
    policy.with_name("policy-rc.d.before-turno").write_text("exit 0")
    with no_service_starts(policy):
        pass
    assert policy.read_text() == "exit 0"
