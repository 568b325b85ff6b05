"""Every way of tampering that we could think of is found; so a clean answer means something."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import sql

from tests.installation import ExampleInstallation
from turno.tenancy.catalog import check
from turno.tenancy.design import Finding
from turno.tenancy.identity.function_names import own_name, short_name
from turno.tenancy.identity.session import service_session
from turno.tenancy.rights.grants import CONTROL, TENANT
from turno.tenancy.rights.live import live_objects
from turno.tenancy.rights.matrix import Kind

# The tampering, and a part of its finding; names in braces are this installation's.
TAMPERED: dict[str, tuple[LiteralString, str]] = {
    "a table to a handler": ("GRANT UPDATE ON {schema}.background_jobs TO {handler}", "{handler} may UPDATE"),
    "a column to a handler": ("GRANT UPDATE (status) ON {schema}.background_jobs TO {handler}", "may UPDATE (status)"),
    "TRUNCATE to a handler": ("GRANT TRUNCATE ON {schema}.orders TO {handler}", "{handler} may TRUNCATE"),
    "TRIGGER to a handler": ("GRANT TRIGGER ON {schema}.orders TO {handler}", "{handler} may TRIGGER"),
    "REFERENCES to a handler": ("GRANT REFERENCES ON {schema}.orders TO {handler}", "{handler} may REFERENCES"),
    "the right to pass on": (
        "GRANT SELECT ON {schema}.orders TO {handler} WITH GRANT OPTION",
        "{handler} may SELECT, and grant it to others",
    ),
    "CREATE on the schema": ("GRANT CREATE ON SCHEMA {schema} TO {handler}", "{handler} may CREATE"),
    "the schema to everybody": ("GRANT USAGE ON SCHEMA {schema} TO PUBLIC", "PUBLIC may USAGE"),
    "a table to everybody": ("GRANT SELECT ON {schema}.invoices TO PUBLIC", "PUBLIC may SELECT"),
    "another tenant's table": ("GRANT SELECT ON {schema}.invoices TO {other_handler}", "{other_handler} may SELECT"),
    "another tenant's schema": ("GRANT USAGE ON SCHEMA {schema} TO {other_handler}", "{other_handler} may USAGE"),
    "a function to everybody": (
        "GRANT EXECUTE ON FUNCTION {schema}.jobs_finish{key} TO PUBLIC",
        "jobs_finish{key} of suc0001: PUBLIC may EXECUTE",
    ),
    "an inner function": ("GRANT EXECUTE ON FUNCTION {schema}.job_end{key} TO {handler}", "{handler} may EXECUTE"),
    "a sequence": ("GRANT UPDATE ON SEQUENCE {schema}.invoices_id_seq TO {handler}", "{handler} may UPDATE"),
    "tickets to a handler": ("GRANT SELECT ON turno.tickets TO {handler}", "{handler} may SELECT"),
    "claiming to a handler": ("GRANT EXECUTE ON FUNCTION turno.claim_job TO {handler}", "{handler} may EXECUTE"),
    "tables to the engine": ("GRANT SELECT ON {schema}.background_jobs TO {engine}", "{engine} may SELECT"),
    "a right lost": ("REVOKE EXECUTE ON FUNCTION {schema}.job_start{key} FROM {handler}", "{handler} may not EXECUTE"),
    "the schema lost": ("REVOKE USAGE ON SCHEMA {schema} FROM {api}", "{api} may not USAGE"),
    "a path unpinned": ("ALTER FUNCTION {schema}.jobs_finish{key} RESET search_path", "has not pinned its search_path"),
    "a path with pg_temp first": (
        "ALTER FUNCTION {schema}.jobs_finish{key} SET search_path = pg_temp, {schema}",
        "has not pinned its search_path",
    ),
    "a path of another tenant": (
        "ALTER FUNCTION {schema}.jobs_finish{key} SET search_path = {other}, pg_temp",
        "has not pinned its search_path",
    ),
    "a path of control": ("ALTER FUNCTION turno.claim RESET ALL", "claim: has not pinned its search_path"),
    "a caller's function": ("ALTER FUNCTION {schema}.jobs_finish{key} SECURITY INVOKER", "does not run as its owner"),
    "a namesake": (
        "CREATE FUNCTION {schema}.job_start{key}(integer) RETURNS integer LANGUAGE sql RETURN 1",
        "has a namesake",
    ),
    "an unpinned newcomer": (
        "CREATE FUNCTION {schema}.newcomer() RETURNS integer LANGUAGE sql SECURITY DEFINER RETURN 1",
        "newcomer of suc0001: has not pinned",
    ),
    "a function gone": ("DROP FUNCTION {schema}.job_purge{key}", "job_purge{key} of suc0001: is missing"),
    "a schema gone": ("DROP SCHEMA {schema} CASCADE", "is missing"),
    "a function's owner": ("ALTER FUNCTION {schema}.jobs_finish{key} OWNER TO {admin}", "is owned by"),
    "a table's owner": ("ALTER TABLE {schema}.orders OWNER TO {handler}", "is owned by {handler}"),
    "a schema's owner": ("ALTER SCHEMA {schema} OWNER TO {handler}", "is owned by {handler}"),
    "row security off": ("ALTER TABLE turno.tickets DISABLE ROW LEVEL SECURITY", "row-level security off"),
    "row security of outcomes off": (
        "ALTER TABLE turno.outcome_batches DISABLE ROW LEVEL SECURITY",
        "row-level security off",
    ),
    "a policy gone": ("DROP POLICY own_tickets ON turno.tickets", "own_tickets on turno.tickets: is not the designed"),
    "a policy wider": (
        "ALTER POLICY own_tickets ON turno.tickets USING (true)",
        "own_tickets on turno.tickets: is not the designed",
    ),
    "a policy more": ("CREATE POLICY all_of_them ON turno.tickets USING (true)", "all_of_them on turno.tickets"),
    "a policy to one": ("ALTER POLICY own_tickets ON turno.tickets TO {handler}", "own_tickets on turno.tickets"),
    "default rights": (
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} GRANT SELECT ON TABLES TO PUBLIC",
        "{owner}: gives rights on future objects",
    ),
    "default rights lost": (
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} GRANT EXECUTE ON FUNCTIONS TO PUBLIC",
        "{owner}: gives rights on future objects",
    ),
    "handler in api": ("GRANT {api} TO {handler}", "{handler}: is a member of {api}"),
    "handler in handler": ("GRANT {other_handler} TO {handler}", "{handler}: is a member of {other_handler}"),
    "handler in a stranger": ("GRANT pg_read_all_data TO {handler}", "{handler}: is a member of pg_read_all_data"),
    "stranger in handler": ("GRANT {handler} TO pg_monitor", "pg_monitor: is a member of {handler}"),
    "engine in owners": ("GRANT {owners} TO {engine}", "{engine}: is a member of {owners}"),
    "web passes on": ("GRANT {api} TO {web} WITH ADMIN OPTION", "{web}: may do more with {api} than use it"),
    "web no member": ("REVOKE {api} FROM {web}", "{web}: is no proper member of {api}"),
    "owner no member": ("REVOKE {handler} FROM {owner}", "{owner}: is no proper member of {handler}"),
    "superuser": ("ALTER ROLE {handler} SUPERUSER", "{handler}: is SUPERUSER"),
    "bypassrls": ("ALTER ROLE {owner} BYPASSRLS", "{owner}: is BYPASSRLS"),
    "createrole": ("ALTER ROLE {web} CREATEROLE", "{web}: is CREATEROLE"),
    "createdb": ("ALTER ROLE {web} CREATEDB", "{web}: is CREATEDB"),
    "replication": ("ALTER ROLE {engine} REPLICATION", "{engine}: is REPLICATION"),
    "an owner that logs in": ("ALTER ROLE {owner} LOGIN", "{owner}: LOGIN is True"),
    "a handler that cannot": ("ALTER ROLE {handler} NOLOGIN", "{handler}: LOGIN is False"),
    "web that inherits": ("ALTER ROLE {web} INHERIT", "{web}: LOGIN is True, INHERIT is True"),
    "no connection limit": ("ALTER ROLE {handler} CONNECTION LIMIT -1", "may open any number of sessions"),
    "no bound of temporary files": (
        "ALTER ROLE {handler} RESET temp_file_limit",
        "{handler}: may fill the server's disk with temporary files",
    ),
    "a bound that is none": ("ALTER ROLE {report} SET temp_file_limit = -1", "{report}: may fill the server's disk"),
    "the log to everybody": (
        (
            "DO $$ BEGIN EXECUTE (SELECT string_agg(format('GRANT EXECUTE ON FUNCTION %s TO PUBLIC',"
            " oid::regprocedure), ';') FROM pg_proc WHERE proname = 'pg_logical_emit_message'); END $$"
        ),
        "PUBLIC may EXECUTE",
    ),
    "a default": ("ALTER ROLE {handler} SET statement_timeout = 1", "every database: statement_timeout"),
    "a default in one database": (
        "ALTER ROLE {handler} IN DATABASE postgres SET search_path = x",
        "in postgres: search_path",
    ),
    "a role gone": ("ALTER ROLE {report} RENAME TO somebody_else", "{report}: is missing"),
    "a role more": ("CREATE ROLE {stray}", "{stray}: belongs to nobody"),
    "TEMP to everybody": ("GRANT TEMP ON DATABASE {database} TO PUBLIC", "PUBLIC may TEMPORARY"),
    "CONNECT to everybody": ("GRANT CONNECT ON DATABASE {database} TO PUBLIC", "PUBLIC may CONNECT"),
    "TEMP to a handler": ("GRANT TEMP ON DATABASE {database} TO {handler}", "{handler} may TEMPORARY"),
    "CREATE to a handler": ("GRANT CREATE ON DATABASE {database} TO {handler}", "{handler} may CREATE"),
    "no CONNECT": ("REVOKE CONNECT ON DATABASE {database} FROM {handler}", "{handler} may not CONNECT"),
    "public schema": ("GRANT USAGE ON SCHEMA public TO PUBLIC", "schema public: PUBLIC may USAGE"),
    "CREATE in public": ("GRANT CREATE ON SCHEMA public TO PUBLIC", "schema public: PUBLIC may CREATE"),
    "a schema elsewhere": ("CREATE SCHEMA shed; GRANT USAGE ON SCHEMA shed TO {handler}", "{handler} has rights on it"),
    "a table elsewhere": (
        "CREATE SCHEMA shed; CREATE TABLE shed.tools (); GRANT SELECT ON shed.tools TO {handler}",
        "table shed.tools: {handler} has rights on it",
    ),
    "a function elsewhere": ("GRANT EXECUTE ON FUNCTION pg_ls_waldir() TO {handler}", "{handler} has rights on it"),
    "something owned elsewhere": (
        "CREATE SCHEMA shed; CREATE TABLE shed.tools (); ALTER TABLE shed.tools OWNER TO {handler}",
        "table shed.tools: is owned by {handler}",
    ),
    "advisory locks to everybody": (
        "GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO PUBLIC",
        "pg_advisory_lock(bigint): PUBLIC may EXECUTE",
    ),
    "advisory locks to a handler": (
        "GRANT EXECUTE ON FUNCTION pg_try_advisory_xact_lock(bigint) TO {handler}",
        "pg_try_advisory_xact_lock(bigint): {handler} may EXECUTE",
    ),
    "advisory locks from owners": (
        "REVOKE EXECUTE ON FUNCTION pg_advisory_xact_lock(integer, integer) FROM {owners}",
        "{owners} may not EXECUTE",
    ),
    "large objects": ("GRANT EXECUTE ON FUNCTION lo_from_bytea(oid, bytea) TO PUBLIC", "lo_from_bytea(oid,bytea)"),
    "an untrusted language": (
        (
            "CREATE LANGUAGE shellish HANDLER plpgsql_call_handler;"
            "UPDATE pg_language SET lanpltrusted = false WHERE lanname = 'shellish'"
        ),
        "language shellish",
    ),
    "a way out": (
        (
            "INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)"
            " SELECT 99999, 'dblink', extowner, extnamespace, true, '1' FROM pg_extension LIMIT 1"
        ),
        "extension dblink",
    ),
    "half a tenant": ("UPDATE turno.tenants SET state = 'provisioning' WHERE schema = {schema_text}", "half-way"),
}


@pytest.fixture
def names(module_example: ExampleInstallation) -> dict[str, str]:
    logins, tenant, other = module_example.logins, module_example.one, module_example.other
    row = module_example.admin.execute("SELECT report_role, current_user FROM turno.companies").fetchone()
    assert row
    return {
        "schema": tenant.schema,
        "key": own_name("", tenant.schema),
        "handler": tenant.handler_role,
        "owner": tenant.owner_role,
        "api": tenant.api_role,
        "other": other.schema,
        "other_handler": other.handler_role,
        "report": row[0],
        "admin": row[1],
        "engine": logins.engine,
        "web": logins.web,
        "owners": logins.owners,
        "stray": logins.role("r_stray"),
        "database": module_example.admin.info.dbname,
    }


@contextmanager
def tampered(admin: psycopg.Connection[Any], statement: LiteralString, names: Mapping[str, str]) -> Iterator[None]:
    with admin.transaction(force_rollback=True):
        literal = {"schema_text": sql.Literal(names["schema"]), "key": sql.SQL(own_name("", names["schema"]))}
        identifiers = {name: sql.Identifier(value) for name, value in names.items()}
        admin.execute(sql.SQL(statement).format(**identifiers | literal))
        yield


def findings(example: ExampleInstallation) -> list[Finding]:
    return check(example.admin, example.logins)


def test_a_fresh_installation_is_as_designed(module_example: ExampleInstallation) -> None:
    assert findings(module_example) == []


@pytest.mark.parametrize("what", TAMPERED)
def test_tampering_is_found(module_example: ExampleInstallation, names: dict[str, str], what: str) -> None:
    statement, message = TAMPERED[what]
    with tampered(module_example.admin, statement, names):
        result = findings(module_example)
    assert any(message.format(**names) in str(finding) for finding in result), result
    assert all(finding.remedy for finding in result)


def test_narrow_grants_are_distinguished_from_wider_ones(
    module_example: ExampleInstallation, names: dict[str, str]
) -> None:
    if module_example.admin.info.server_version < 160000:
        statement: LiteralString = "ALTER ROLE {web} INHERIT"
        message = "{web}: LOGIN is True, INHERIT is True"
    else:
        statement = "GRANT {api} TO {web} WITH INHERIT TRUE"
        message = "{web}: is a member of {api}"
    with tampered(module_example.admin, statement, names):
        result = findings(module_example)
    assert any(message.format(**names) in str(finding) for finding in result), result


def test_values_of_settings_are_hidden(module_example: ExampleInstallation, names: dict[str, str]) -> None:
    with tampered(module_example.admin, "ALTER ROLE {handler} SET application_name = 'secret'", names):
        assert "secret" not in str(findings(module_example))


def test_the_operator_may_ask(module_example: ExampleInstallation) -> None:
    logins = module_example.logins
    with service_session(logins, logins.operator, application="test") as operator:
        assert check(operator, module_example.logins) == []


def test_check_covers_the_checking_role(module_example: ExampleInstallation) -> None:
    logins = module_example.logins
    names = {"operator": logins.operator, "owners": logins.owners, "schema": ""}
    with tampered(module_example.admin, "GRANT {owners} TO {operator}; SET LOCAL ROLE {operator}", names):
        result = findings(module_example)
    assert [finding.object for finding in result] == [f"role {logins.operator}"]


def test_all_that_the_matrix_names_exists(module_example: ExampleInstallation) -> None:
    for schema, matrix in (("turno", CONTROL), (module_example.one.schema, TENANT)):
        live = {entry.target for entry in live_objects(module_example.admin, [schema])}
        functions = {function.name for function in live if function.kind is Kind.FUNCTION}
        relations = {relation.name for relation in live if relation.kind in {Kind.TABLE, Kind.VIEW}}
        assert matrix.functions.keys() | matrix.invokers <= set(map(short_name, functions))
        assert matrix.relations.keys() <= relations
        assert {table for table, _ in matrix.columns} <= relations


def test_no_two_tenants_share_the_name_of_a_function(module_example: ExampleInstallation) -> None:
    """Of equal names a session would load the rows of all tenants."""
    schemas = [tenant.schema for tenant in module_example.tenants.values()]
    live = [entry.target for entry in live_objects(module_example.admin, schemas)]
    functions = Counter(target.name for target in live if target.kind is Kind.FUNCTION)
    assert len(functions) >= len(schemas) * len(TENANT.functions)
    assert max(functions.values()) == 1


def test_every_table_of_jobs_is_named_in_the_matrix(module_example: ExampleInstallation) -> None:
    live = [entry.target for entry in live_objects(module_example.admin, [module_example.one.schema])]
    tables = {table.name for table in live if table.kind is Kind.TABLE}
    jobs = {name for name in tables if name.startswith(("background_", "job_", "schema_", "notification"))}
    assert jobs <= TENANT.relations.keys()
