import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from turno.tenancy.catalog import check
from turno.tenancy.identity.directory import UnknownTenant, read_tenant
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.roles import existing_roles
from turno.tenancy.identity.session import LoginRefused, handler_session, service_session
from turno.tenancy.identity.tenant import HandlerLogin, InvalidSlug, Tenant
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import (
    TenantExists,
    UnknownCompany,
    add_company,
    add_tenant,
    raise_connections,
    read_company,
    reset_login,
    reset_report_login,
    revoke_tokens,
)
from turno.tenancy.provisioning.removal import remove_tenant

KEY = b"the tests' own master key, 32 or more"
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def logins(database: str) -> Logins:
    return Logins(database, KEY)


@pytest.fixture
def admin(database: str, logins: Logins) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database, autocommit=True) as admin:
        install(admin, logins)
        add_company(admin, logins, "acme", "Acme")
        yield admin


def log_in(logins: Logins, tenant: Tenant) -> psycopg.Connection[Any]:
    return handler_session(logins, HandlerLogin.of(tenant), application="test", kind=psycopg.Connection)


def schema_exists(admin: psycopg.Connection[Any], schema: str) -> bool:
    return admin.execute("SELECT FROM pg_namespace WHERE nspname = %s", [schema]).rowcount == 1


def put_ticket(admin: psycopg.Connection[Any], tenant: Tenant) -> None:
    admin.execute(
        "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
        " VALUES (gen_random_uuid(), %s, 'q', 't', 1, 1, now(), 'ready', 'exec')",
        [tenant.id],
    )


def test_tenant_is_complete_and_every_role_can_log_in(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenant = add_tenant(admin, logins, "suc0001", "acme")
    assert tenant.state == "active"
    assert check(admin, logins) == []
    with log_in(logins, tenant) as handler:
        assert handler.execute("SELECT count(*) FROM background_jobs").fetchone() == (0,)
    for role in (logins.engine, logins.web, logins.operator):
        with service_session(logins, role, application="test") as session:
            assert session.execute("SELECT current_user").fetchone() == (role,)


def test_all_acts_can_be_repeated(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenant = add_tenant(admin, logins, "suc0001", "acme")
    company = read_company(admin, "acme")
    assert install(admin, logins) == ()
    assert add_company(admin, logins, "acme", "Acme") == company
    assert add_tenant(admin, logins, "suc0001", "acme") == tenant
    assert check(admin, logins) == []


def test_revoked_rights_are_restored_by_adding_again(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenant = add_tenant(admin, logins, "suc0001", "acme")
    names = {"h": tenant.handler_role, "o": tenant.owner_role, "a": tenant.api_role, "web": logins.web}
    damage = sql.SQL(
        "REVOKE {h} FROM {o}; REVOKE {a} FROM {web}; ALTER ROLE {h} NOLOGIN INHERIT CONNECTION LIMIT -1 PASSWORD NULL;"
        "REVOKE CONNECT ON DATABASE {database} FROM {h}; REVOKE USAGE ON SCHEMA {schema} FROM {h}"
    )
    identifiers = {"database": admin.info.dbname, "schema": tenant.schema}
    admin.execute(damage.format(**{name: sql.Identifier(value) for name, value in (names | identifiers).items()}))
    assert check(admin, logins) != []
    assert add_tenant(admin, logins, "suc0001", "acme") == tenant
    assert check(admin, logins) == []
    with log_in(logins, tenant):
        pass


def test_names_in_the_database_reveal_nothing(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenant = add_tenant(admin, logins, "suc0001", "acme")
    report = read_company(admin, "acme").report_role
    for name in (tenant.schema, tenant.owner_role, tenant.handler_role, tenant.api_role, report):
        assert "suc" not in name
        assert "acme" not in name


def test_the_server_never_sees_a_password(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenant = add_tenant(admin, logins, "suc0001", "acme")
    rows = admin.execute(
        "SELECT rolname, rolpassword FROM pg_authid WHERE starts_with(rolname, %s)", [logins.role("")]
    ).fetchall()
    verifiers = {name: verifier for name, verifier in rows if verifier}
    logged_in = {logins.engine, logins.web, logins.operator, tenant.handler_role}
    assert verifiers.keys() == logged_in | {read_company(admin, "acme").report_role}
    rounds = "1" if admin.info.server_version >= 160000 else "4096"
    assert {verifier.split(":")[0] for verifier in verifiers.values()} == {f"SCRAM-SHA-256${rounds}"}


def test_a_handler_has_only_so_many_sessions(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenant = add_tenant(admin, logins, "suc0001", "acme", connections=2)
    # Counted only after the password was found good, and yet no refusal of the login.
    with log_in(logins, tenant), log_in(logins, tenant), pytest.raises(psycopg.errors.TooManyConnections):
        log_in(logins, tenant)


def test_raise_connections_never_lowers_a_limit(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenants = [add_tenant(admin, logins, slug, "acme", connections=n) for slug, n in (("suc0001", 4), ("suc0002", 40))]
    raise_connections(admin, 20)
    limit = "SELECT rolconnlimit FROM pg_roles WHERE rolname = %s"
    result = [admin.execute(limit, [tenant.handler_role]).fetchone() for tenant in tenants]
    assert result == [(20,), (40,)]


@pytest.mark.parametrize(
    "slug", ["", "Suc", "suc 1", "1suc", "a" * 41, 'a"; DROP SCHEMA turno; --', "año", "a\n", "t.x"]
)
def test_a_slug_is_checked_before_anything_is_done(admin: psycopg.Connection[Any], logins: Logins, slug: str) -> None:
    with pytest.raises(InvalidSlug):
        add_tenant(admin, logins, slug, "acme")
    with pytest.raises(InvalidSlug):
        add_company(admin, logins, slug, "Name")


def test_a_tenant_belongs_to_one_company_that_exists(admin: psycopg.Connection[Any], logins: Logins) -> None:
    add_company(admin, logins, "other", "Other")
    add_tenant(admin, logins, "suc0001", "acme")
    with pytest.raises(UnknownCompany):
        add_tenant(admin, logins, "suc0002", "nobody")
    with pytest.raises(TenantExists):
        add_tenant(admin, logins, "suc0001", "other")


def test_a_removed_tenant_leaves_nothing(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenant, other = (add_tenant(admin, logins, slug, "acme") for slug in ("suc0001", "suc0002"))
    put_ticket(admin, tenant)
    put_ticket(admin, other)
    with log_in(logins, tenant) as session:
        session.execute("BEGIN; SELECT FROM background_jobs")
        remove_tenant(admin, logins, "suc0001")
        with pytest.raises(psycopg.OperationalError):
            session.execute("SELECT 1")
    assert not schema_exists(admin, tenant.schema)
    assert list(existing_roles(admin, [tenant.owner_role, tenant.handler_role, tenant.api_role])) == []
    assert admin.execute("SELECT tenant_id FROM turno.tickets").fetchall() == [(other.id,)]
    assert check(admin, logins) == []
    remove_tenant(admin, logins, "suc0001")


LOCKS_COUNTED = """
CREATE FUNCTION turno.locks_counted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    locks bigint := (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid());
BEGIN
    IF locks > 200 THEN
        RAISE EXCEPTION '% locks in one transaction', locks;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER locks_counted AFTER DELETE ON turno.tickets FOR EACH STATEMENT EXECUTE FUNCTION turno.locks_counted()
"""


def test_removal_of_many_ordered_keys_occupies_few_locks(admin: psycopg.Connection[Any], logins: Logins) -> None:
    tenant, other = (add_tenant(admin, logins, slug, "acme") for slug in ("suc0001", "suc0002"))
    put_ticket(admin, other)
    admin.execute(
        "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend,"
        " concurrency_key, key_position)"
        " SELECT gen_random_uuid(), %s, 'q', 't', 1, 1, now(), 'ready', 'exec', n, n FROM generate_series(1, 2500) n",
        [tenant.id],
    )
    admin.execute(
        "INSERT INTO turno.key_locks SELECT tenant_id, concurrency_key FROM turno.tickets WHERE key_position > 0"
    )
    admin.execute(LOCKS_COUNTED)
    remove_tenant(admin, logins, "suc0001")
    assert admin.execute("SELECT tenant_id FROM turno.tickets").fetchall() == [(other.id,)]
    assert admin.execute("SELECT turno.prune('2 days', '30 days', 10000)").fetchone() == (2500,)


def test_a_removed_slug_starts_anew(admin: psycopg.Connection[Any], logins: Logins) -> None:
    old = add_tenant(admin, logins, "suc0001", "acme")
    remove_tenant(admin, logins, "suc0001")
    new = add_tenant(admin, logins, "suc0001", "acme")
    assert (new.id, new.state) == (old.id, "active")
    assert new.schema != old.schema
    assert abs(new.tokens_valid_from - time.time()) < 60
    with log_in(logins, new):
        pass
    assert check(admin, logins) == []


@pytest.mark.parametrize("schema_dropped", [False, True])
def test_a_removal_that_was_stopped_can_go_on(
    admin: psycopg.Connection[Any], logins: Logins, *, schema_dropped: bool
) -> None:
    tenant = add_tenant(admin, logins, "suc0001", "acme")
    put_ticket(admin, tenant)
    admin.execute("UPDATE turno.tenants SET state = 'removed'")
    if schema_dropped:
        admin.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(tenant.schema)))
    assert check(admin, logins) != []
    with pytest.raises(TenantExists, match="remove it again first"):
        add_tenant(admin, logins, "suc0001", "acme")
    remove_tenant(admin, logins, "suc0001")
    assert check(admin, logins) == []


def test_unknown_tenant_cannot_be_removed_or_reset(admin: psycopg.Connection[Any], logins: Logins) -> None:
    with pytest.raises(UnknownTenant):
        remove_tenant(admin, logins, "suc0001")
    with pytest.raises(UnknownTenant):
        reset_login(admin, logins, "suc0001")
    with pytest.raises(UnknownTenant):
        revoke_tokens(admin, "suc0001")
    with pytest.raises(UnknownCompany):
        reset_report_login(admin, logins, "nobody")


def test_a_reset_login_works_and_its_old_password_does_not(admin: psycopg.Connection[Any], logins: Logins) -> None:
    before = add_tenant(admin, logins, "suc0001", "acme")
    with log_in(logins, before) as session:
        session.execute("ALTER ROLE CURRENT_USER SET search_path = pg_catalog")
        session.execute("ALTER ROLE CURRENT_USER IN DATABASE postgres SET work_mem = '1GB'")
        session.execute("ALTER ROLE CURRENT_USER PASSWORD 'mine'")
    with pytest.raises(LoginRefused):
        log_in(logins, before)
    assert reset_login(admin, logins, "suc0001") == 1
    after = read_tenant(admin, "suc0001")
    assert after
    with log_in(logins, after):
        pass
    with pytest.raises(LoginRefused):
        log_in(logins, before)
    assert check(admin, logins) == []


def test_a_report_login_can_be_reset_too(admin: psycopg.Connection[Any], logins: Logins) -> None:
    role = read_company(admin, "acme").report_role
    admin.execute(sql.SQL("ALTER ROLE {} SET search_path = x").format(sql.Identifier(role)))
    assert reset_report_login(admin, logins, "acme") == 1
    conninfo = logins.conninfo(role, epoch=1, search_path="pg_temp", application="test", timeouts={})
    with psycopg.connect(conninfo):
        assert check(admin, logins) == []


def test_an_operator_revokes_tokens(admin: psycopg.Connection[Any], logins: Logins) -> None:
    add_tenant(admin, logins, "suc0001", "acme")
    with service_session(logins, logins.operator, application="test") as operator:
        revoke_tokens(operator, "suc0001")
    tenant = read_tenant(admin, "suc0001")
    assert tenant
    assert abs(tenant.tokens_valid_from - time.time()) < 60


def test_many_at_once_get_in_nobodys_way(admin: psycopg.Connection[Any], database: str, logins: Logins) -> None:
    errors: list[BaseException] = []

    def provision(worker: int) -> None:
        try:
            with psycopg.connect(database, autocommit=True) as own:
                install(own, logins)
                add_company(own, logins, f"company{worker}", "Name")
                for number in range(3):
                    add_tenant(own, logins, f"suc{number}", "acme")
                    add_tenant(own, logins, f"suc{worker}-{number}", f"company{worker}")
        except psycopg.Error as error:
            errors.append(error)

    workers = [threading.Thread(target=provision, args=[worker]) for worker in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert admin.execute("SELECT count(*) FROM turno.tenants WHERE state = 'active'").fetchone() == (15,)
    assert check(admin, logins) == []


VICTIM = """
import sys
import psycopg
from turno.tenancy.provisioning.install import install
from turno.tenancy.identity.logins import Logins
from turno.tenancy.provisioning.provision import add_company, add_tenant
from turno.tenancy.provisioning.removal import remove_tenant

url = sys.argv[1]
logins = Logins(url, b"the tests' own master key, 32 or more")
with psycopg.connect(url, autocommit=True) as admin:
    print("ready", flush=True)
    install(admin, logins)
    add_company(admin, logins, "acme", "Acme")
    add_tenant(admin, logins, "stays", "acme")
    add_tenant(admin, logins, "goes", "acme")
    remove_tenant(admin, logins, "goes")
"""


def run_and_kill(database: str, after: float) -> int:
    """Run the whole script in a process and kill it after this number of seconds, if it still lives."""
    victim = subprocess.Popen(
        [sys.executable, "-c", VICTIM, database],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    with victim:
        assert victim.stdout
        assert victim.stdout.readline() == b"ready\n"
        time.sleep(after)
        victim.send_signal(signal.SIGKILL)
    return victim.returncode


def test_killed_anywhere_it_can_be_finished(database: str, logins: Logins) -> None:
    chance = random.Random(11)  # noqa: S311 - which moments, not which secrets
    killed = [run_and_kill(database, chance.uniform(0, 0.25)) for _ in range(12)]
    assert -signal.SIGKILL in killed
    with psycopg.connect(database, autocommit=True) as admin:
        install(admin, logins)
        add_company(admin, logins, "acme", "Acme")
        goes = read_tenant(admin, "goes")
        if goes:
            remove_tenant(admin, logins, "goes")
        tenant = add_tenant(admin, logins, "stays", "acme")
        with log_in(logins, tenant):
            pass
        assert check(admin, logins) == []


@pytest.fixture
def ordinary(database: str, logins: Logins) -> Iterator[str]:
    """The database for its CREATEROLE owner, without superuser."""
    name = f"provisioner_{logins.installation}"
    with psycopg.connect(database, autocommit=True) as root:
        root.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEROLE PASSWORD 'ordinary'").format(sql.Identifier(name)))
        root.execute(
            sql.SQL("ALTER DATABASE {} OWNER TO {}").format(sql.Identifier(root.info.dbname), sql.Identifier(name))
        )
    yield make_conninfo(database, user=name, password=quote("ordinary"))
    with psycopg.connect(database, autocommit=True) as root:
        root.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(sql.Identifier(name)))


def test_a_provisioner_that_is_no_superuser(ordinary: str, database: str, logins: Logins) -> None:
    with psycopg.connect(ordinary, autocommit=True) as admin:
        install(admin, logins)
        install(admin, logins)
        add_company(admin, logins, "acme", "Acme")
        first, second = (add_tenant(admin, logins, slug, "acme") for slug in ("suc0001", "suc0002"))
        put_ticket_as_owner(admin, second)
        open_to_all = check(admin, logins)
        unbounded = "may fill the server's disk with temporary files"
        of_superusers = {"PUBLIC may EXECUTE", unbounded}
        if admin.info.server_version >= 160000:
            of_superusers.add("cannot connect once handlers use all connections")
        assert {finding.problem for finding in open_to_all} == of_superusers
        assert any("pg_logical_emit_message" in finding.object for finding in open_to_all)
        assert {finding.remedy.partition(",")[0] for finding in open_to_all} == {
            "run `turno db migrate` as a superuser"
        }
        assert all(finding.for_superuser for finding in open_to_all)
        with log_in(logins, first) as handler, pytest.raises(psycopg.errors.InsufficientPrivilege):
            handler.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(second.schema, "background_jobs")))
        assert reset_login(admin, logins, "suc0001") == 1
        with log_in(logins, second) as session:
            session.execute("ALTER ROLE CURRENT_USER SET work_mem = '1GB'")
        reset_login(admin, logins, "suc0002")
        remove_tenant(admin, logins, "suc0002")
        assert {finding.problem for finding in check(admin, logins)} == of_superusers
    with psycopg.connect(database, autocommit=True) as root:
        install(root, logins)
        assert check(root, logins) == []
    # Functions that the superuser has revoked from PUBLIC are still open to the provisioner, as the control role.
    with psycopg.connect(ordinary, autocommit=True) as admin:
        add_tenant(admin, logins, "suc0003", "acme")
        assert [finding.problem for finding in check(admin, logins)] == [unbounded]
        with psycopg.connect(database, autocommit=True) as root:
            own = sql.Identifier(f"provisioner_{logins.installation}")
            root.execute(sql.SQL("GRANT SET ON PARAMETER temp_file_limit TO {}").format(own))
        add_tenant(admin, logins, "suc0003", "acme")
        assert check(admin, logins) == []


def put_ticket_as_owner(admin: psycopg.Connection[Any], tenant: Tenant) -> None:
    with admin.transaction():
        admin.execute(sql.SQL("SET LOCAL ROLE {}").format(sql.Identifier(tenant.owner_role)))
        put_ticket(admin, tenant)


def test_installations_in_one_cluster_are_strangers(database: str, module_database: str) -> None:
    homes = [(url, Logins(url, KEY)) for url in (database, module_database)]
    for url, logins in homes:
        with psycopg.connect(url, autocommit=True) as admin:
            install(admin, logins)
            add_company(admin, logins, "acme", "Acme")
            add_tenant(admin, logins, "suc0001", "acme")
    for url, logins in homes:
        with psycopg.connect(url, autocommit=True) as admin:
            assert check(admin, logins) == []
            tenant = read_tenant(admin, "suc0001")
            assert tenant
    (_, first), (elsewhere, _) = homes
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        psycopg.connect(
            Logins(elsewhere, KEY, installation=first.installation).conninfo(
                first.engine, search_path="turno", application="test", timeouts={}
            )
        )
