"""Turno leaves a database as it came: installed, upgraded and removed while an application is at work."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from tests.capabilities.adoption.host_application import Host
from turno.capabilities.adoption.uninstall import StillInUse, obstacles, uninstall
from turno.commands.main import main
from turno.tenancy.identity.session import service_session
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.schema_migrations.all_schemas import migrate
from turno.testing.wait import wait_until

OF_PUBLIC = """
SELECT 'database', privilege_type FROM pg_database, aclexplode(coalesce(datacl, acldefault('d', datdba)))
WHERE datname = current_database() AND grantee = 0
UNION ALL
SELECT 'public', privilege_type FROM pg_namespace, aclexplode(nspacl) WHERE nspname = 'public' AND grantee = 0
UNION ALL
SELECT p.oid::regprocedure::text, privilege_type
FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) WHERE grantee = 0 AND p.pronamespace = 11
ORDER BY 1, 2
"""


def left(host: Host) -> list[tuple[Any, ...]]:
    """Turno's objects in the database and the cluster."""
    return host.admin.execute(
        "SELECT rolname FROM pg_roles WHERE starts_with(rolname, %s) UNION ALL"
        " SELECT nspname FROM pg_namespace WHERE nspname = 'turno' OR nspname ~ '^t_[0-9a-f]{12}$'",
        [host.logins.role("")],
    ).fetchall()


def test_application_sees_no_refusal_during_uninstall(bare_host: Host) -> None:
    host = bare_host

    def of_public() -> list[tuple[Any, ...]]:
        return host.admin.execute(OF_PUBLIC).fetchall()

    before = host.rights, of_public()
    stop, refused, rounds = threading.Event(), [], []

    def work() -> None:
        while not stop.is_set():
            try:
                with host.connect(host.app) as session:
                    session.execute("SELECT pg_advisory_lock(7), pg_advisory_unlock(7)")
                    session.execute("CREATE TEMP TABLE scratch (id integer)")
                    session.execute("INSERT INTO suc0001.orders (total) VALUES (1)")
                with host.connect(host.owner) as tool:
                    tool.execute("SELECT pg_advisory_lock(8)")
                    tool.execute("ALTER TABLE suc0002.orders ADD COLUMN IF NOT EXISTS note text")
            except psycopg.Error as error:
                refused.append(error)
            rounds.append(1)

    working = threading.Thread(target=work)
    working.start()
    try:
        install(host.admin, host.logins)
        host.adopt()
        migrate(lambda: psycopg.connect(host.url, autocommit=True), host.logins, redefine=True)
        host.adopt("suc0002", rights="read")
        uninstall(host.admin, host.logins)
        seen = len(rounds)
        while len(rounds) < seen + 2:
            stop.wait(0.01)
    finally:
        stop.set()
        working.join()
    assert refused == []
    assert left(host) == []
    assert (host.rights, of_public()) == before


def test_it_is_refused_while_workers_live_or_data_would_go(bare_host: Host) -> None:
    host = bare_host
    install(host.admin, host.logins)
    add_company(host.admin, host.logins, "acme", "Acme")
    tenant = add_tenant(host.admin, host.logins, "own", "acme")
    host.admin.execute("INSERT INTO turno.workers (backend, host, pid) VALUES ('pool', 'here', 1)")
    with pytest.raises(StillInUse, match="live workers: 1; stop them"):
        uninstall(host.admin, host.logins)
    host.admin.execute("DELETE FROM turno.workers")
    web = service_session(host.logins, host.logins.web, application="turno-web")
    with web, pytest.raises(StillInUse, match=r"sessions of Turno are open \(turno-web\): stop the web"):
        uninstall(host.admin, host.logins)
    wait_until(lambda: not list(obstacles(host.admin, host.logins)), within=5)
    host.run("INSERT INTO {ours}.external_doubt DEFAULT VALUES", ours=tenant.schema)
    with pytest.raises(StillInUse, match=r"the tenants own hold data .* with --drop-tenants"):
        uninstall(host.admin, host.logins)
    uninstall(host.admin, host.logins, drop_tenants=True)
    assert left(host) == []
    uninstall(host.admin, host.logins)


def test_stopped_uninstallation_resumes(bare_host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host = bare_host
    before = host.rights
    install(host.admin, host.logins)
    for slug in ("suc0001", "suc0002"):
        host.adopt(slug)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killing:
        killing.setattr("turno.tenancy.provisioning.removal.drop_roles", killed)
        with pytest.raises(KeyboardInterrupt):
            uninstall(host.admin, host.logins)
    uninstall(host.admin, host.logins)
    assert (host.rights, left(host)) == (before, [])


def test_by_command_first_the_plan(bare_host: Host) -> None:
    host = bare_host

    def turno(*arguments: str, typed: str | None = None) -> Any:
        return CliRunner().invoke(main, arguments, env=host.environment, input=typed)

    requested = turno("db", "migrate", typed="n\n")
    assert requested.exit_code == 1
    assert "schemas that stay as they are: suc0001, suc0002" in requested.output
    assert turno("db", "migrate", "--yes").exit_code == 0
    assert turno("schema", "adopt", "suc0001").exit_code == 0
    planned = turno("db", "uninstall", "--plan")
    assert "keep schema suc0001 with everything that is the application's\n" in planned.output
    assert "GRANT CONNECT, TEMPORARY ON DATABASE" in planned.output
    assert "GRANT USAGE ON SCHEMA public TO PUBLIC\n" in planned.output
    assert f"drop role {host.logins.engine}\n" in planned.output
    assert left(host) != []
    assert turno("db", "uninstall", typed="n\n").exit_code == 1
    gone = turno("db", "uninstall", "--yes")
    assert (gone.exit_code, gone.output.endswith("Turno is no longer in this database\n")) == (0, True)
    assert left(host) == []
    assert turno("db", "uninstall", "--plan").output == ""
