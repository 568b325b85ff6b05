"""`turno template …` against an installation, and the filter of its jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from handlers.batch_invoicing import BatchInvoicing
from turno.commands.main import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation

ADD = ("template", "add", "nightly", "--type", "batch_invoicing", "--payload", '{"order_ids": [1]}')


@pytest.fixture
def turno(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Run `turno` in this process; returns its status and its output."""
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)

    def run(*arguments: str) -> tuple[int, str]:
        done = CliRunner().invoke(main, list(arguments), prog_name="turno")
        return done.exit_code, done.output

    yield run
    example.rows("DELETE FROM turno.schedule_templates")
    example.rows("DELETE FROM turno.template_zones")


def test_a_template_from_the_shell(turno: Any) -> None:
    assert turno(*ADD, "--cron", "0 3 * * *", "--user", "ops") == (0, "nightly is added in 2 tenants\n")
    status, printed = turno(*ADD, "--cron", "0 3 * * *")
    assert (status, "change it by `turno template set`" in printed) == (1, True)
    assert turno("template", "set", "nightly", "--every", "15m") == (0, "nightly is changed in 2 tenants\n")
    (row,) = json.loads(turno("template", "list", "--json")[1])
    assert (row["cron"], row["every"], row["spread"], row["user_id"]) == (None, 900, 900, "ops")
    assert row["payload"]["order_ids"] == [1]
    assert "every 900 s" in turno("template", "list")[1]
    zone = ("template", "zone", "--tenant", "suc0002", "Europe/Madrid")
    assert turno(*zone) == (0, "suc0002 has the time zone Europe/Madrid\n")
    assert turno("template", "pause", "nightly")[0] == 0
    lines = turno("template", "show", "nightly")[1].splitlines()
    assert ["template paused" in line for line in lines[1:]] == [True, True]
    assert turno("template", "resume", "nightly") == (0, "nightly fires again\n")
    copies = json.loads(turno("template", "show", "nightly", "--json")[1])["copies"]
    assert [(copy["tenant"], copy["zone"]) for copy in copies] == [("suc0001", "UTC"), ("suc0002", "Europe/Madrid")]
    assert turno("template", "remove", "nightly") == (0, "nightly is removed\n")


def test_queue_of_a_template_from_the_shell(turno: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BatchInvoicing, "other_queues", ("hot",))
    assert turno(*ADD, "--every", "1h", "--queue", "hot")[0] == 0
    assert turno("template", "set", "nightly", "--priority", "low")[0] == 0
    assert [row["queue"] for row in json.loads(turno("template", "list", "--json")[1])] == ["hot"]
    assert turno("template", "set", "nightly", "--queue", "")[0] == 0
    assert [row["queue"] for row in json.loads(turno("template", "list", "--json")[1])] == [None]


def test_refusals_name_the_problem(turno: Any) -> None:
    for arguments, problem in (
        ((*ADD, "--cron", "0 25 * * *", "--zone", "Nowhere/City"), "  zone: is no time zone known here"),
        ((*ADD, "--payload", '{"order_ids": "x"}', "--every", "1h"), "  payload.order_ids: "),
        ((*ADD, "--every", "1h", "--queue", "hot"), "the queue 'hot': choose one of cold"),
        (("template", "pause", "nightly"), "there is no template 'nightly'; see `turno template list`"),
        (("template", "remove", "nightly"), "there is no template 'nightly'"),
        (("template", "show", "nightly"), "there is no template 'nightly'"),
        (("template", "zone", "--tenant", "suc0001", "Nowhere/City"), "is no time zone known here"),
        (("template", "zone", "--tenant", "nowhere", "UTC"), "nowhere"),
    ):
        status, printed = turno(*arguments)
        assert (status, problem in printed) == (1, True), printed


def test_jobs_are_found_by_their_template(turno: Any, example: ExampleInstallation) -> None:
    turno(*ADD, "--every", "1h", "--spread", "0")
    job_id, other = example.enqueue({"order_ids": [1]}), example.enqueue({"order_ids": [2]})
    example.rows("UPDATE background_jobs SET origin = 'template nightly' WHERE id = %s", job_id)
    example.rows(
        "INSERT INTO turno.template_runs SELECT %s, %s, id, now() FROM turno.schedule_templates", job_id, example.one.id
    )
    everywhere = json.loads(turno("job", "list", "--all", "--template", "nightly", "--json")[1])
    in_tenant = json.loads(turno("job", "list", "--tenant", "suc0001", "--template", "nightly", "--json")[1])
    assert [row["job_id"] for row in everywhere] == [row["id"] for row in in_tenant] == [str(job_id)]
    assert turno("job", "cancel", "--all", "--template", "nightly")[1].startswith("1 job of 1 tenant cancelled")
    (row,) = example.rows("SELECT status FROM background_jobs WHERE id = %s", other)
    assert row["status"] == "pending"
