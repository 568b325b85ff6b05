"""`turno doctor` and `turno status`, followed line by line: each line names its remedy."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from psycopg import connect

from tests.acceptance.turno_process import bare_environment, turno

if TYPE_CHECKING:
    from pathlib import Path

KEY = "a key of this test's own, long enough for all"


def test_an_installation_is_mended_line_by_line(module_database: str, tmp_path: Path) -> None:
    environment = bare_environment(DATABASE_URL=module_database, TURNO_MASTER_KEY=KEY, TURNO_JWT_KEY=KEY)

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        done = turno(*arguments, environment=environment | variables, folder=tmp_path)
        assert "Traceback" not in done.stderr
        return done

    def doctor(**variables: str) -> list[str]:
        done = run("doctor", **variables)
        *lines, last = done.stdout.splitlines()
        assert (done.returncode, last) == (
            (1, f"{len(lines)} to mend") if lines else (0, "everything is as it should be")
        )
        return lines

    (missing,) = doctor(DATABASE_URL="dbname=nowhere host=127.0.0.1 port=1")
    assert missing.startswith("cannot reach PostgreSQL")
    (not_installed,) = doctor()
    # Where other roles exist on the server, the plan comes first.
    assert "`turno db migrate" in not_installed
    run("db", "migrate", "--yes")

    without_tenant, without_maintenance = doctor()
    assert without_tenant.startswith("there is no tenant; run `turno tenant add")
    assert without_maintenance.endswith("run `turno maintain`")
    run("tenant", "add", "suc0001", "--company", "shop", "--name", "Shop")
    with connect(module_database, autocommit=True) as admin:
        admin.execute(
            "INSERT INTO turno.leases (name, holder, until) VALUES ('steady sweeps', 'x', now() + interval '1 hour')"
        )
        assert doctor() == []
        assert run("status").stdout == "nothing is wrong\n"

        admin.execute("GRANT SELECT ON turno.tickets TO PUBLIC")
        (right,) = doctor()
        assert "tickets" in right
        admin.execute("REVOKE SELECT ON turno.tickets FROM PUBLIC")
        free, reserved = doctor(TURNO_WEB_THREADS="400")
        assert "may open 424 sessions" in free
        assert reserved.endswith("set reserved_connections = 411 and restart the server")
        (limit,) = doctor(TURNO_MAX_CHILDREN="12", TURNO_LIMITS="child_sessions=1")
        assert limit.startswith(
            "a tenant's handlers may open 10 sessions, and 1 hosts with these settings run children"
        )
        run("db", "migrate", "--yes", TURNO_MAX_CHILDREN="12")
        assert doctor(TURNO_MAX_CHILDREN="12", TURNO_LIMITS="child_sessions=1") == []

        # Two applications, each with its own handlers, share the installation.
        run("db", "migrate", "--yes", TURNO_HANDLERS="tests.adopting_handlers:HANDLERS")
        registered = {name for (name,) in admin.execute("SELECT type FROM turno.handlers")}
        assert {"raise_orders", "batch_invoicing"} <= registered
        admin.execute(
            "INSERT INTO turno.workers (backend, host, pid, alive_at, types, versions)"
            " VALUES ('pool', 'erp', 7, now() + interval '1 hour', '{raise_orders,send_letters}', '{1,1}')"
        )
        assert doctor() == []
        (shared,) = doctor(TURNO_HANDLERS="tests.adopting_handlers:HANDLERS")
        assert shared.startswith("workers of erp run raise_orders of this TURNO_HANDLERS, and send_letters of other")
        assert "rename the types of one" in shared

        admin.execute("DELETE FROM turno.workers")
        admin.execute("UPDATE turno.leases SET until = now() - interval '1 minute'")
    sentence = run("status")
    assert sentence.returncode == 1
    assert sentence.stdout.startswith("no process runs maintenance by itself")
    assert sentence.stdout.endswith("run `turno maintain`\n")
