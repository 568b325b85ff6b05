"""SQL of a tenant's choice, run by its handler against a tenant that looks just like it.

Each attack runs twice: with the installation unchanged, when it must be refused, and with its guard taken away, when it
must work. So no attack is refused by accident, and no guard is redundant.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString
from uuid import UUID, uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg import errors, sql

from tests.faults.attacks import ATTACKS, NO_MEMBER, OUT_OF_B, Guard
from tests.installation import ExampleInstallation
from turno.jobs.new_job import as_json
from turno.tenancy.catalog import check
from turno.tenancy.identity.directory import Directory, UnknownTenant, read_tenant
from turno.tenancy.identity.function_names import own_name
from turno.tenancy.identity.session import LoginRefused, NotConfined, as_api, assert_confined, handler_session
from turno.tenancy.identity.tenant import HandlerLogin, Tenant
from turno.tenancy.provisioning.install import install
from turno.tenancy.provisioning.provision import add_company, add_tenant, read_company, reset_login

CANARY = "the secret of the tenant next door"
Session = psycopg.Connection[Any]


@pytest.fixture(scope="module", autouse=True)
def sealed(module_example: ExampleInstallation) -> Iterator[None]:
    """Put a secret next door; afterwards every guard stands again."""
    insert = sql.SQL("INSERT INTO {} VALUES ('SECRT', %s, 'exempt', NULL, NULL, 'AR')")
    module_example.admin.execute(insert.format(sql.Identifier(module_example.other.schema, "customers")), [CANARY])
    yield
    assert check(module_example.admin, module_example.logins) == []


@pytest.fixture
def session(module_example: ExampleInstallation) -> Iterator[Session]:
    """A session of the handler of A, as a worker opens it."""
    with log_in(module_example, module_example.one) as session:
        yield session


@pytest.fixture
def quiet(module_example: ExampleInstallation) -> ExampleInstallation:
    """The module's example, with nothing left of the test before."""
    module_example.reset()
    return module_example


def log_in(example: ExampleInstallation, tenant: Tenant) -> Session:
    current = read_tenant(example.admin, tenant.slug)
    assert current
    return handler_session(example.logins, HandlerLogin.of(current), application="test", kind=psycopg.Connection)


def raw_log_in(example: ExampleInstallation, tenant: Tenant) -> Session:
    """Log in without asking whether the session is confined."""
    current = read_tenant(example.admin, tenant.slug)
    assert current
    conninfo = example.logins.conninfo(
        current.handler_role,
        epoch=current.login_epoch,
        search_path=f"{tenant.schema},pg_temp",
        application="test",
        timeouts={},
    )
    return psycopg.connect(conninfo)


def fill(example: ExampleInstallation, statement: LiteralString) -> sql.Composed:
    a, b = example.one, example.other
    database = example.admin.info.dbname
    names = {
        "a": a.schema,
        "b": b.schema,
        "r_a": a.handler_role,
        "r_b": b.handler_role,
        "o_a": a.owner_role,
        "o_b": b.owner_role,
        "a_a": a.api_role,
        "a_b": b.api_role,
        "owners": example.logins.owners,
        "engine": example.logins.engine,
        "web": example.logins.web,
        "stray": example.logins.role("r_stray"),
        "database": database,
    }
    texts = names | {"spying": " ".join(["SELECT to_tsvector(company_name) FROM", f"{b.schema}.customers"])}
    return sql.SQL(statement).format(
        **by_version(example),
        **{name: sql.Identifier(value) for name, value in names.items()},
        key_a=sql.SQL(own_name("", a.schema)),
        key_b=sql.SQL(own_name("", b.schema)),
        **{f"text_{name}": sql.Literal(value) for name, value in texts.items()},
    )


def by_version(example: ExampleInstallation) -> dict[str, sql.SQL]:
    """PostgreSQL 16 moved a role's attribute to each membership; 17 gave a function a flag."""
    options = example.admin.info.server_version >= 160000
    flag = example.admin.info.server_version >= 170000
    return {
        "emit_message": sql.SQL(
            "pg_logical_emit_message(boolean, text, text, boolean)"
            if flag
            else "pg_logical_emit_message(boolean, text, text)"
        ),
        "inherit": sql.SQL("WITH INHERIT TRUE" if options else ""),
        "only_inherit": sql.SQL("WITH INHERIT TRUE, SET FALSE" if options else ""),
        "only_set": sql.SQL("WITH INHERIT FALSE, SET TRUE" if options else ""),
    }


@contextmanager
def without(example: ExampleInstallation, guard: Guard) -> Iterator[None]:
    example.admin.execute(fill(example, guard.off))
    try:
        yield
    finally:
        example.admin.execute(fill(example, guard.on))


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused(module_example: ExampleInstallation, attack: str) -> None:
    statement, _ = ATTACKS[attack]
    with raw_log_in(module_example, module_example.one) as session:
        with pytest.raises(errors.InsufficientPrivilege):
            session.execute(fill(module_example, statement))
        session.rollback()
        assert session.execute("SELECT current_user").fetchone() == (module_example.one.handler_role,)


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_attack_works_without_its_guard(module_example: ExampleInstallation, attack: str) -> None:
    statement, guard = ATTACKS[attack]
    with without(module_example, guard), raw_log_in(module_example, module_example.one) as session:
        session.execute(fill(module_example, statement))
        session.rollback()


@pytest.mark.parametrize(
    "statement",
    [
        "RESET ROLE",
        "SET ROLE NONE",
        "SET ROLE {r_a}",
        "RESET SESSION AUTHORIZATION",
        "SET SESSION AUTHORIZATION DEFAULT",
        "SET SESSION AUTHORIZATION {r_a}",
        "RESET ALL",
        "DISCARD ALL",
        "BEGIN; SAVEPOINT s; RESET ROLE; ROLLBACK TO s; COMMIT",
        "BEGIN; SET LOCAL ROLE NONE; COMMIT",
        "SELECT set_config('role', 'none', false)",
        "DO $do$ BEGIN RESET ROLE; COMMIT; END $do$",
    ],
)
def test_no_role_is_left_to_fall_back_to(
    module_example: ExampleInstallation, session: Session, statement: LiteralString
) -> None:
    session.execute(fill(module_example, statement))
    assert_confined(session, module_example.one.handler_role)


def test_web_session_could_reset_its_role(module_example: ExampleInstallation) -> None:
    with as_api(module_example.web, module_example.one) as cursor:
        cursor.execute("RESET ROLE")
        cursor.execute("SELECT current_user AS me")
        assert cursor.fetchone() == {"me": module_example.logins.web}


def test_a_session_with_memberships_is_not_used(module_example: ExampleInstallation) -> None:
    with without(module_example, NO_MEMBER), pytest.raises(NotConfined):
        log_in(module_example, module_example.one)


@pytest.mark.parametrize("power", ["SUPERUSER", "BYPASSRLS"])
def test_a_session_with_powers_is_not_used(module_example: ExampleInstallation, power: LiteralString) -> None:
    guard = Guard("ALTER ROLE {r_a} " + power, "ALTER ROLE {r_a} NO" + power)
    with without(module_example, guard), pytest.raises(NotConfined):
        log_in(module_example, module_example.one)


PATHS: list[LiteralString] = ["{b}", "{b}, {a}", "{a}, {b}", "{b}, pg_catalog", "pg_temp, {b}", "public, {b}"]


@pytest.mark.parametrize("path", PATHS)
def test_no_search_path_reaches_the_second_schema(module_example: ExampleInstallation, path: LiteralString) -> None:
    assert CANARY not in seen_by(module_example, path)
    with without(module_example, OUT_OF_B):
        leads_there = not path.startswith("{a}")
        assert (CANARY in seen_by(module_example, path)) is leads_there


def seen_by(example: ExampleInstallation, path: LiteralString) -> set[str]:
    with raw_log_in(example, example.one) as session:
        session.execute(sql.SQL("SET search_path = ") + fill(example, path))
        try:
            return {name for (name,) in session.execute("SELECT company_name FROM customers")}
        except errors.UndefinedTable:
            return set()


def test_a_list_in_one_string_leads_nowhere_either(module_example: ExampleInstallation, session: Session) -> None:
    session.execute("SELECT set_config('search_path', %s, false)", [f"{module_example.other.schema}, pg_catalog"])
    with pytest.raises(errors.UndefinedTable):
        session.execute("SELECT FROM customers")


def claimed_job(example: ExampleInstallation, tenant: Tenant) -> tuple[UUID, UUID]:
    """Enqueue a job of this tenant, claim it, and return its id and its real token."""
    job_id = example.enqueue({"order_ids": [1], "point_of_sale": 1}, tenant=tenant)
    token = uuid4()
    example.admin.execute(
        "UPDATE turno.tickets SET state = 'running', worker_id = gen_random_uuid(), token = %s WHERE job_id = %s",
        [token, job_id],
    )
    return job_id, token


def test_the_real_token_of_another_tenant_opens_nothing(quiet: ExampleInstallation, session: Session) -> None:
    job_id, token = claimed_job(quiet, quiet.other)
    complete = sql.SQL("SELECT {}(%s, %s)").format(
        sql.Identifier(quiet.other.schema, own_name("claim_hold", quiet.other.schema))
    )
    with pytest.raises(errors.InsufficientPrivilege):
        session.execute(complete, [job_id, token])
    with pytest.raises(psycopg.Error, match=r"the claim on job .* was lost"):
        session.execute(quiet.sql("SELECT job_progress(%s, %s, 1, 1, '')"), [job_id, token])
    assert quiet.job(job_id, tenant=quiet.other)["status"] == "pending"


def test_it_is_row_security_that_refuses_the_token(quiet: ExampleInstallation, session: Session) -> None:
    job_id, token = claimed_job(quiet, quiet.other)
    guard = Guard(
        "ALTER POLICY own_tickets ON turno.tickets USING (true)",
        "ALTER POLICY own_tickets ON turno.tickets USING (tenant_id = (SELECT turno.tenant_of(current_user)))",
    )
    with without(quiet, guard):
        session.execute(quiet.sql("SELECT job_progress(%s, %s, 1, 1, '')"), [job_id, token])


def test_an_owner_sees_and_makes_its_own_tickets_only(quiet: ExampleInstallation) -> None:
    mine, theirs = (quiet.enqueue({"order_ids": [1], "point_of_sale": 1}, tenant=t) for t in (quiet.one, quiet.other))
    with quiet.admin.transaction(force_rollback=True):
        quiet.admin.execute(fill(quiet, "SET LOCAL ROLE {o_a}"))
        assert quiet.admin.execute("SELECT job_id FROM turno.tickets").fetchall() == [(mine,)]
        assert quiet.admin.execute("DELETE FROM turno.tickets WHERE job_id = %s", [theirs]).rowcount == 0
        with pytest.raises(errors.InsufficientPrivilege):
            quiet.admin.execute("UPDATE turno.tickets SET tenant_id = %s", [quiet.other.id])


def test_a_temporary_table_shadows_nothing(quiet: ExampleInstallation) -> None:
    """TEMP is revoked; were it not, the pinned path would still have temporary objects last."""
    temp = Guard("GRANT TEMP ON DATABASE {database} TO {r_a}", "REVOKE TEMP ON DATABASE {database} FROM {r_a}")
    unpinned = Guard(
        "ALTER FUNCTION {a}.jobs_enqueue{key_a} SET search_path = pg_temp, {a}",
        "ALTER FUNCTION {a}.jobs_enqueue{key_a} SET search_path = {a}, pg_temp",
    )
    with without(quiet, temp):
        assert enqueued_under_a_shadow(quiet) == 1
        with without(quiet, unpinned):
            assert enqueued_under_a_shadow(quiet) == 0


def enqueued_under_a_shadow(example: ExampleInstallation) -> int:
    """Return how many of one job's rows reach the real table while a temporary one has its name."""
    example.reset()
    with raw_log_in(example, example.one) as session:
        session.execute("CREATE TEMP TABLE background_jobs (LIKE background_jobs INCLUDING ALL)")
        new = example.new_job({"order_ids": [1], "point_of_sale": 1})
        given = (*claimed_job(example, example.one), as_json([new]))
        session.execute(example.sql("SELECT job_enqueue_child(%s, %s, %s)"), given)
    return len(example.rows("SELECT id FROM background_jobs")) - 1


POISON = {
    "local_preload_libraries": "nope",
    "search_path": "pg_catalog",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "serializable",
    "row_security": "off",
    "statement_timeout": "7777",
    "lock_timeout": "7777",
    "idle_in_transaction_session_timeout": "7777",
    "synchronous_commit": "off",
    "client_encoding": "SQL_ASCII",
    "standard_conforming_strings": "off",
    "TimeZone": "America/Argentina/Buenos_Aires",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "client_connection_check_interval": "0",
    "jit": "on",
}


@pytest.fixture
def mended(module_example: ExampleInstallation) -> Iterator[None]:
    yield
    reset_login(module_example.admin, module_example.logins, module_example.one.slug)


@pytest.mark.usefixtures("mended")
@pytest.mark.parametrize("setting", POISON)
def test_a_poisoned_default_does_not_reach_the_next_session(module_example: ExampleInstallation, setting: str) -> None:
    name = sql.Identifier(setting)
    with log_in(module_example, module_example.one) as session:
        before = session.execute("SELECT current_setting(%s)", [setting]).fetchone()
        session.execute(sql.SQL("ALTER ROLE CURRENT_USER SET {} = {}").format(name, sql.Literal(POISON[setting])))
    with log_in(module_example, module_example.one) as session:
        assert session.execute("SELECT current_setting(%s)", [setting]).fetchone() == before
    assert unguarded_login(module_example, setting) != before


def unguarded_login(example: ExampleInstallation, setting: str) -> tuple[str] | None:
    """Log in without startup options and return the setting, or None if that is not even possible."""
    tenant = read_tenant(example.admin, example.one.slug)
    assert tenant
    password = example.logins.password(tenant.handler_role, tenant.login_epoch)
    try:
        with psycopg.connect(example.url, user=tenant.handler_role, password=password) as session:
            return session.execute("SELECT current_setting(%s)", [setting]).fetchone()
    except psycopg.OperationalError:
        return None


@pytest.mark.usefixtures("mended")
def test_a_session_fills_no_disk_with_temporary_files(module_example: ExampleInstallation) -> None:
    handler = sql.Identifier(module_example.one.handler_role)
    module_example.admin.execute(sql.SQL("ALTER ROLE {} SET temp_file_limit = '1MB'").format(handler))
    install(module_example.admin, module_example.logins)  # a changed bound stays
    with log_in(module_example, module_example.one) as session:
        session.execute("ALTER ROLE CURRENT_USER RESET ALL")
        session.execute("ALTER ROLE CURRENT_USER SET work_mem = '64kB'")
    with log_in(module_example, module_example.one) as session, pytest.raises(errors.ConfigurationLimitExceeded):
        session.execute("SELECT max(n) FROM (SELECT n FROM generate_series(1, 200000) n ORDER BY random()) s")
    reset_login(module_example.admin, module_example.logins, module_example.one.slug)
    with log_in(module_example, module_example.one) as session:
        assert session.execute("SHOW temp_file_limit").fetchone() == ("1GB",)


@pytest.mark.usefixtures("mended")
def test_a_role_set_as_a_default_is_not_taken(module_example: ExampleInstallation) -> None:
    with log_in(module_example, module_example.one) as session:
        session.execute(fill(module_example, "ALTER ROLE CURRENT_USER SET role = {text_r_b}"))
    # Not even by a capable role: the login is exactly the requested role.
    with without(module_example, NO_MEMBER), raw_log_in(module_example, module_example.one) as session:
        assert session.execute("SELECT current_user").fetchone() == (module_example.one.handler_role,)


@pytest.mark.usefixtures("mended")
def test_a_role_set_as_a_default_is_not_even_taken_by_a_member(module_example: ExampleInstallation) -> None:
    with without(module_example, NO_MEMBER):
        with raw_log_in(module_example, module_example.one) as session:
            session.execute(fill(module_example, "ALTER ROLE CURRENT_USER SET role = {text_r_b}"))
        with raw_log_in(module_example, module_example.one) as session:
            assert session.execute("SELECT current_user").fetchone() == (module_example.one.handler_role,)


@pytest.mark.usefixtures("mended")
def test_a_changed_password_locks_out_only_until_the_reset(module_example: ExampleInstallation) -> None:
    with log_in(module_example, module_example.one) as session:
        session.execute("ALTER ROLE CURRENT_USER PASSWORD 'mine'")
    with pytest.raises(LoginRefused):
        log_in(module_example, module_example.one)
    reset_login(module_example.admin, module_example.logins, module_example.one.slug)
    with log_in(module_example, module_example.one):
        pass


END = {"terminated": "SELECT pg_terminate_backend(%s)", "cancelled": "SELECT pg_cancel_backend(%s)"}


@pytest.mark.parametrize("how", END)
def test_another_tenants_session_cannot_be_ended(
    module_example: ExampleInstallation, session: Session, how: str
) -> None:
    with log_in(module_example, module_example.other) as victim, pytest.raises(errors.InsufficientPrivilege):
        session.execute(END[how].encode(), [victim.info.backend_pid])
    with log_in(module_example, module_example.one) as own:
        assert session.execute(END[how].encode(), [own.info.backend_pid]).fetchone() == (True,)
    guard = Guard("GRANT {r_b} TO {r_a} {inherit}", NO_MEMBER.on)
    with without(module_example, guard), log_in(module_example, module_example.other) as victim:
        assert session.execute(END[how].encode(), [victim.info.backend_pid]).fetchone() == (True,)


def test_queries_of_another_tenant_are_hidden(module_example: ExampleInstallation, session: Session) -> None:
    with log_in(module_example, module_example.other) as neighbour:
        neighbour.execute(sql.SQL("SELECT {}").format(sql.Literal(CANARY)))
        shown = session.execute(
            "SELECT query FROM pg_stat_activity WHERE pid = %s", [neighbour.info.backend_pid]
        ).fetchone()
        assert shown == ("<insufficient privilege>",)


def test_a_prepared_statement_follows_the_path_and_finds_nothing(
    module_example: ExampleInstallation, session: Session
) -> None:
    session.execute("PREPARE names AS SELECT company_name FROM customers")
    mine = session.execute("EXECUTE names").fetchall()
    assert mine
    session.execute(sql.SQL("SET search_path = ") + fill(module_example, "{b}, {a}"))
    assert session.execute("EXECUTE names").fetchall() == mine
    session.execute(sql.SQL("SET search_path = ") + fill(module_example, "{b}"))
    with pytest.raises(errors.UndefinedTable):
        session.execute("EXECUTE names")


def test_discard_all_restores_pinned_settings(module_example: ExampleInstallation, session: Session) -> None:
    session.execute("SET search_path = pg_catalog; SET statement_timeout = 1; SET synchronous_commit = off")
    session.execute("DISCARD ALL")
    pinned = {
        "search_path": f"{module_example.one.schema},pg_temp",
        "statement_timeout": "0",
        "synchronous_commit": "on",
    }
    for name, value in pinned.items():
        assert session.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,)


def test_giving_everything_away_gives_nothing_away(module_example: ExampleInstallation, session: Session) -> None:
    # Rights on columns are not its to drop: the server refuses the whole of it.
    for statement in ("DROP OWNED BY CURRENT_USER", "REASSIGN OWNED BY CURRENT_USER TO {r_b}"):
        with pytest.raises(errors.InsufficientPrivilege):
            session.execute(fill(module_example, statement))
    assert check(module_example.admin, module_example.logins) == []
    with log_in(module_example, module_example.one) as again:
        again.execute("SELECT FROM orders")


def test_the_web_itself_reads_no_tenant(module_example: ExampleInstallation) -> None:
    read = fill(module_example, "SELECT FROM {a}.background_jobs")
    with pytest.raises(errors.InsufficientPrivilege):
        module_example.web.execute(read)
    guard = Guard(
        "ALTER ROLE {web} INHERIT; GRANT {a_a} TO {web} {inherit}",
        "ALTER ROLE {web} NOINHERIT; REVOKE {a_a} FROM {web}; GRANT {a_a} TO {web} {only_set}",
    )
    with without(module_example, guard):
        module_example.web.execute(read)


@pytest.mark.parametrize("table", ["orders", "invoices", "customers", "background_job_checkpoints"])
def test_the_web_as_a_tenant_reads_no_business(module_example: ExampleInstallation, table: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege), as_api(module_example.web, module_example.one) as cursor:
        cursor.execute(sql.SQL("SELECT FROM {}").format(sql.Identifier(table)))


@pytest.mark.parametrize("table", ["background_jobs", "orders"])
def test_the_engine_reads_no_tenant(module_example: ExampleInstallation, table: str) -> None:
    with pytest.raises(errors.InsufficientPrivilege):
        module_example.engine.execute(
            sql.SQL("SELECT FROM {}").format(sql.Identifier(module_example.one.schema, table))
        )
    with pytest.raises(errors.InsufficientPrivilege):
        module_example.engine.execute("SELECT FROM turno.tickets")


def test_report_reads_branches_of_its_company(module_example: ExampleInstallation) -> None:
    admin, logins = module_example.admin, module_example.logins
    add_company(admin, logins, "rival", "Rival")
    stranger = add_tenant(admin, logins, "rival0001", "rival")
    report = read_company(admin, "northwind").report_role
    conninfo = logins.conninfo(report, search_path="pg_temp", application="test", timeouts={})
    count = sql.SQL("SELECT count(*) FROM {}")
    with psycopg.connect(conninfo, autocommit=True) as session:
        assert_confined(session, report)
        for branch in (module_example.one, module_example.other):
            assert session.execute(count.format(sql.Identifier(branch.schema, "orders"))).fetchone() != (0,)
        with pytest.raises(errors.InsufficientPrivilege):
            session.execute(count.format(sql.Identifier(stranger.schema, "orders")))
        for forbidden in ("DELETE FROM {}.orders", "SELECT FROM {}.background_jobs"):
            with pytest.raises(errors.InsufficientPrivilege):
                session.execute(sql.SQL(forbidden).format(sql.Identifier(module_example.one.schema)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(slug=st.text(max_size=60) | st.from_regex(r"[a-z][a-z0-9_-]{0,39}", fullmatch=True))
def test_no_slug_opens_a_tenant_but_its_own(module_example: ExampleInstallation, slug: str) -> None:
    @contextmanager
    def lent() -> Iterator[Session]:
        yield module_example.web

    if slug in module_example.tenants:
        return
    with pytest.raises(UnknownTenant):
        Directory(lent).find(slug)


def test_a_name_that_the_server_would_cut_is_refused(module_example: ExampleInstallation) -> None:
    logins = module_example.logins
    prefix = len(logins.role(""))
    assert len(logins.role("x" * (63 - prefix))) == 63
    with pytest.raises(ValueError, match="63 bytes"):
        logins.role("x" * (64 - prefix))
    with pytest.raises(ValueError, match="63 bytes"):
        logins.role("ñ" * 30)
