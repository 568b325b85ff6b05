"""Schemas are adopted by command, one or many, and the application's jobs run in them."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from psycopg import sql

import turno
from tests.adopting_handlers import RaiseOrders
from tests.capabilities.adoption.host_application import Host
from tests.installation import ROOT
from turno.administration import Administration
from turno.capabilities.adoption.program import CannotAdopt, InvalidRights, adopt
from turno.capabilities.adoption.uninstall import uninstall
from turno.commands.main import main
from turno.tenancy.catalog import check
from turno.tenancy.identity.directory import read_tenant
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def test_by_command_one_schema_in_one_line(host: Host) -> None:
    def run(*arguments: str) -> Any:
        return CliRunner().invoke(main, arguments, env=host.environment)

    added = run("schema", "adopt", "suc0001", "--rights", "read")
    tenant = read_tenant(host.admin, "suc0001")
    assert tenant is not None
    assert added.output == f"tenant suc0001 of suc0001: schema {tenant.schema} beside suc0001\n"
    planned = run("tenant", "remove", "suc0001", "--dry-run")
    assert f"drop schema {tenant.schema}\n" in planned.output
    assert planned.output.endswith("keep schema suc0001 with everything that is the application's\n")
    assert run("tenant", "remove", "suc0001", "--yes").exit_code == 0
    refused = run("schema", "adopt", "suc0009")
    assert (refused.exit_code, "there is no schema suc0009" in refused.stderr) == (1, True)
    assert run("tenant", "add", "suc0009").exit_code == 2
    assert run("schema", "adopt").exit_code == 2


def test_a_program_adopts_as_the_command_does(host: Host) -> None:
    administration = Administration(host.environment)
    tenant = adopt(administration, "suc0001", "suc0001", owner=host.owner, rights="read")
    assert (tenant.adopted_schema, tenant.company) == ("suc0001", "suc0001")
    may = "SELECT has_table_privilege(%(role)s, t, 'SELECT'), has_table_privilege(%(role)s, t, 'INSERT')"
    may += " FROM to_regclass('suc0001.orders') AS t"
    assert host.admin.execute(may, {"role": tenant.handler_role}).fetchone() == (True, False)
    assert adopt(administration, "suc0001", "suc0001", rights="read") == tenant
    assert check(host.admin, host.logins) == []
    with pytest.raises(CannotAdopt, match="there is no schema suc0009"):
        adopt(administration, "suc0009", "suc0009")
    with pytest.raises(InvalidRights, match="'all orders' are no rights"):
        adopt(administration, "suc0002", "suc0002", rights="all orders")


def test_list_is_adopted_by_line_and_second_run_continues(host: Host, tmp_path: Path) -> None:
    def run(*arguments: str, typed: str | None = None) -> Any:
        return CliRunner().invoke(main, ["schema", "adopt", *arguments], env=host.environment, input=typed)

    file = tmp_path / "tenants.csv"
    file.write_text(f"slug,schema,owner,rights\nsuc0001,suc0001,{host.owner},read\nsuc0003,suc0003,,\n"
                    'suc0002,suc0002,,"orders:write,customers"\n')  # fmt: skip
    first = run("--from", str(file))
    assert first.exit_code == 1
    assert first.stderr == f"{file}, line 3, suc0003: there is no schema suc0003; create it, or correct its name\n"
    assert "2 tenants added, 0 already there, 1 refused" in first.output
    host.make("suc0003")
    second = run("--from", str(file))
    assert (second.exit_code, second.output) == (0, "1/1 suc0003\n1 tenant added, 2 already there, 0 refused\n")
    piped = run("--from", "-", typed="slug,schema\nsuc0003,suc0003\n")
    assert piped.output == "0 tenants added, 1 already there, 0 refused\n"
    assert run("--from", "nowhere.csv").exit_code == 2
    assert check(host.admin, host.logins) == []


def test_wrong_list_is_refused_by_line_and_column_first(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "tenants.csv"
    file.write_text("slug,schema,rights\nsuc0001,suc0001,\nSuc 2,suc0002,\nsuc0003,Suc3,all:of\nsuc0004,suc0001,\n")
    refused = CliRunner().invoke(main, ["schema", "adopt", "--from", str(file)], env=host.environment)
    assert refused.exit_code == 1
    for location in ("line 3, column slug", "line 4, column schema", "line 4, column rights", "line 5, column schema"):
        assert f"{file}, {location}: " in refused.stderr
    assert read_tenant(host.admin, "suc0001") is None
    file.write_text("slug,name\n")
    refused = CliRunner().invoke(main, ["schema", "adopt", "--from", str(file)], env=host.environment)
    assert f"{file}, line 1: columns are slug, schema, owner, rights, company" in refused.stderr


@pytest.mark.parametrize("command", [["work", "--once"], ["work"]])
def test_a_job_that_the_application_enqueues_runs_in_its_schema(
    host: Host, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNO_HANDLERS", "tests.adopting_handlers:HANDLERS")
    environment = host.environment | {
        "TURNO_HANDLERS": "tests.adopting_handlers:HANDLERS",
        "QUEUE_BACKEND": "exec" if "--once" in command else "pool",
        "TURNO_RUN_FOLDER": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    for arguments in (
        ["db", "migrate", "--yes"],
        ["host", "add", host.app],
        ["schema", "adopt", "suc0001"],
    ):
        done = CliRunner().invoke(main, arguments, env=environment)
        assert done.exit_code == 0, done.output
    with host.connect(host.app) as erp, erp.transaction():
        erp.execute("INSERT INTO suc0001.orders (total) VALUES (10)")
        turno.enqueue(erp, "suc0001", RaiseOrders, amount=5)
    program = [sys.executable, "-m", "turno.commands.main", *command]
    tenant = read_tenant(host.admin, "suc0001")
    assert tenant is not None
    jobs = sql.SQL("SELECT status, result FROM {}").format(sql.Identifier(tenant.schema, "background_jobs"))
    ended = sql.SQL("SELECT FROM {} WHERE finished_at IS NOT NULL OR errors > 0").format(
        sql.Identifier(tenant.schema, "background_jobs")
    )
    with subprocess.Popen(program, env=os.environ | environment, cwd=tmp_path) as worker:
        assert wait_until(lambda: host.admin.execute(ended).rowcount == 1, within=60)
        worker.terminate()
    assert host.admin.execute(jobs).fetchall() == [("completed", {"changed": 1, "schema": "suc0001"})]
    assert host.admin.execute("SELECT total FROM suc0001.orders").fetchall() == [(15,)]


def test_killed_at_any_moment_a_list_is_finished_by_the_next_run(host: Host, tmp_path: Path) -> None:
    slugs = [f"suc01{number:02}" for number in range(6)]
    for slug in slugs:
        host.make(slug)
    before = host.rights
    file = tmp_path / "tenants.csv"
    file.write_text("slug,schema\n" + "".join(f"{slug},{slug}\n" for slug in slugs))
    program = [sys.executable, "-m", "turno.commands.main", "schema", "adopt", "--from", str(file)]
    environment = os.environ | host.environment | {"PYTHONPATH": str(ROOT)}
    active = "SELECT count(*) FROM turno.tenants WHERE state = 'active'"

    def reached(wanted: int) -> bool:
        return host.admin.execute(active).fetchall() >= [(wanted,)]

    for wanted in (1, 3):
        with subprocess.Popen(program, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL) as victim:
            assert wait_until(partial(reached, wanted), within=60)
            victim.kill()
    done = subprocess.run(program, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.endswith(" already there, 0 refused\n")
    assert host.admin.execute(active).fetchone() == (6,)
    assert check(host.admin, host.logins) == []
    uninstall(host.admin, host.logins)
    assert host.rights == before
