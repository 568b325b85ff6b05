"""The command that a trouble advises works in the situation of the trouble: it shows the cause or ends the trouble."""

from __future__ import annotations

import shlex
import signal
import subprocess
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.situations import SITUATIONS, lacks_type
from tests.unit.test_runbook import rows
from turno.store.operator.troubles import Trouble, troubles
from turno.tenancy.identity.session import service_session
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation

DEAD_AFTER = timedelta(seconds=30)
RESIDENT = ("turno work", "turno maintain")


@pytest.fixture(autouse=True)
def over(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    """Some process runs maintenance; after the test the situation is over."""
    monkeypatch.setattr("turno.store.operator.troubles.OLD_SNAPSHOT", timedelta(0))
    example.rows(
        "INSERT INTO turno.leases (name, holder, until) VALUES ('steady sweeps', 'x', now() + interval '1 hour')"
        " ON CONFLICT (name) DO UPDATE SET until = excluded.until"
    )
    with ExitStack() as stack:
        yield stack
    example.rows("UPDATE turno.tenants SET paused_at = NULL")
    example.rows("DELETE FROM turno.schedule_templates")


def of_kind(example: ExampleInstallation, kind: str) -> list[Trouble]:
    with service_session(example.logins, example.logins.operator, application="test") as operator:
        return [trouble for trouble in troubles(operator, DEAD_AFTER) if trouble.kind == kind]


def output(example: ExampleInstallation, command: str) -> str:
    """Run a command that ends; returns what it prints."""
    known = conninfo_to_dict(example.url)
    postgres = {f"PG{name.upper()}": str(known[key]) for name, key in
                {"host": "host", "port": "port", "user": "user", "password": "password", "database": "dbname"}.items()
                if known.get(key)}  # fmt: skip
    program, *arguments = shlex.split(command)
    if program == "turno":
        done = example.start(*arguments)
    else:
        done = subprocess.Popen(
            [program, *arguments], env=example.environment | postgres, stdout=subprocess.PIPE, text=True
        )
    output, _ = done.communicate(timeout=60)
    assert done.returncode == 0, output
    return output


@pytest.mark.parametrize("kind", SITUATIONS)
def test_advised_command_shows_the_cause_or_ends_it(example: ExampleInstallation, over: ExitStack, kind: str) -> None:
    situation, shown = SITUATIONS[kind]
    situation(example, over)
    (trouble,) = of_kind(example, kind)
    if trouble.everywhere not in ("", trouble.command):
        assert (shown or "suc0001") in output(example, trouble.everywhere)
    if trouble.command.startswith(RESIDENT) and "--once" not in trouble.command:
        process = example.start(*shlex.split(trouble.command)[1:])
        assert wait_until(lambda: not of_kind(example, kind), within=60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    elif shown is None:
        output(example, trouble.command)
        assert of_kind(example, kind) == []
    else:
        assert shown in output(example, trouble.command)


def test_every_kind_of_trouble_has_a_situation() -> None:
    assert SITUATIONS.keys() == rows("Turno's own").keys() | {"paused tenant", "paused type"}


def test_dry_run_of_an_advised_cancel_changes_nothing(example: ExampleInstallation, over: ExitStack) -> None:
    lacks_type(example, over)
    (trouble,) = of_kind(example, "lacks type")
    assert trouble.command.endswith(" --dry-run")
    output(example, trouble.command)
    assert len(of_kind(example, "lacks type")) == 1
    output(example, trouble.command.removesuffix(" --dry-run"))
    assert of_kind(example, "lacks type") == []
