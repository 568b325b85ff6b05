"""Attacks in SQL on the tenant next door, each with the guard that stops it.

Names in braces: {a} and {b} are the two tenants' schemas, {r_a} the attacker's login, {o_a} and {a_b} an owner and an
API role, {text_…} the same as a string. Everything is sent in one transaction, which is rolled back.
"""

from typing import LiteralString, NamedTuple


class Guard(NamedTuple):
    """How to take a guard away, and how to put it back."""

    off: LiteralString
    on: LiteralString


def _not_granted(right: LiteralString, target: LiteralString) -> Guard:
    return Guard(f"GRANT {right} ON {target} TO {{r_a}}", f"REVOKE {right} ON {target} FROM {{r_a}}")


NO_MEMBER = Guard("GRANT {r_b} TO {r_a}", "REVOKE {r_b} FROM {r_a}")
NO_OWNER = Guard(
    "REVOKE {r_a} FROM {o_a}; GRANT {o_a} TO {r_a}",
    "REVOKE {o_a} FROM {r_a}; GRANT {r_a} TO {o_a} {only_inherit}",
)
NOT_IN_GROUP = Guard("GRANT {owners} TO {r_a}", "REVOKE {owners} FROM {r_a}")
NOT_WEB = Guard("GRANT {a_b} TO {r_a}", "REVOKE {a_b} FROM {r_a}")
NOT_ENGINE = Guard("GRANT {engine} TO {r_a}", "REVOKE {engine} FROM {r_a}")
NO_SUPERUSER = Guard("ALTER ROLE {r_a} SUPERUSER", "ALTER ROLE {r_a} NOSUPERUSER")
NO_PROGRAMS = Guard(
    "GRANT pg_execute_server_program TO {r_a} {inherit}",
    "REVOKE pg_execute_server_program FROM {r_a}",
)
OUT_OF_B = Guard(
    "GRANT USAGE ON SCHEMA {b} TO {r_a}; GRANT ALL ON ALL TABLES IN SCHEMA {b} TO {r_a};"
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {b} TO {r_a}",
    "REVOKE ALL ON SCHEMA {b} FROM {r_a}; REVOKE ALL ON ALL TABLES IN SCHEMA {b} FROM {r_a};"
    "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA {b} FROM {r_a}",
)
OUT_OF_CONTROL = Guard(
    "GRANT USAGE ON SCHEMA turno TO {r_a}; GRANT ALL ON ALL TABLES IN SCHEMA turno TO {r_a};"
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA turno TO {r_a}; ALTER TABLE turno.tickets DISABLE ROW LEVEL SECURITY",
    "REVOKE ALL ON SCHEMA turno FROM {r_a}; REVOKE ALL ON ALL TABLES IN SCHEMA turno FROM {r_a};"
    "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA turno FROM {r_a}; ALTER TABLE turno.tickets ENABLE ROW LEVEL SECURITY",
)
NO_CREATE = _not_granted("CREATE", "SCHEMA {a}")

# The SQL, and the single guard without which it works.
ATTACKS: dict[str, tuple[LiteralString, Guard]] = {
    # Becoming another role.
    "SET ROLE": ("SET ROLE {r_b}", NO_MEMBER),
    "SET SESSION ROLE": ("SET SESSION ROLE {r_b}", NO_MEMBER),
    "SET LOCAL ROLE": ("SET LOCAL ROLE {r_b}", NO_MEMBER),
    "set_config of role": ("SELECT set_config('role', {text_r_b}, false)", NO_MEMBER),
    "set_config of role, local": ("SELECT set_config('role', {text_r_b}, true)", NO_MEMBER),
    "a DO block": ("DO $do$ BEGIN EXECUTE 'SET ROLE ' || quote_ident({text_r_b}); END $do$", NO_MEMBER),
    "SET ROLE to one's owner": ("SET ROLE {o_a}", NO_OWNER),
    "SET ROLE to the owners": ("SET ROLE {owners}", NOT_IN_GROUP),
    "SET ROLE to another API role": ("SET ROLE {a_b}", NOT_WEB),
    "SET ROLE to the engine": ("SET ROLE {engine}", NOT_ENGINE),
    "SET SESSION AUTHORIZATION": ("SET SESSION AUTHORIZATION {r_b}", NO_SUPERUSER),
    "SET SESSION AUTHORIZATION to one's owner": ("SET SESSION AUTHORIZATION {o_a}", NO_SUPERUSER),
    # Naming the second tenant's objects.
    "read a table": ("SELECT FROM {b}.customers", OUT_OF_B),
    "write a table": ("DELETE FROM {b}.invoice_lines", OUT_OF_B),
    "read jobs": ("SELECT FROM {b}.background_jobs", OUT_OF_B),
    "read a view": ("SELECT FROM {b}.invoice_totals", OUT_OF_B),
    "call a function": ("SELECT {b}.jobs_held{key_b}(ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()])", OUT_OF_B),
    "lock a table": ("LOCK TABLE {b}.orders", OUT_OF_B),
    "by a statistics side door": ("SELECT ts_stat({text_spying})", OUT_OF_B),
    # Leaving something behind that others will run.
    "a function in one's schema": ("CREATE FUNCTION {a}.upper(text) RETURNS text LANGUAGE sql RETURN 'x'", NO_CREATE),
    "an operator in one's schema": (
        "CREATE OPERATOR {a}.= (LEFTARG = text, RIGHTARG = text, FUNCTION = textne)",
        NO_CREATE,
    ),
    "a table in one's schema": ("CREATE TABLE {a}.shadow ()", NO_CREATE),
    "a table in public": ("CREATE TABLE public.shadow ()", _not_granted("CREATE, USAGE", "SCHEMA public")),
    "a schema": ("CREATE SCHEMA shed", _not_granted("CREATE", "DATABASE {database}")),
    "a trojan trigger on a business table": (
        (
            "CREATE TRIGGER trojan BEFORE UPDATE ON {a}.orders FOR EACH ROW"
            " EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        ),
        _not_granted("TRIGGER", "{a}.orders"),
    ),
    "a trojan trigger on the jobs": (
        (
            "CREATE TRIGGER trojan BEFORE UPDATE ON {a}.background_jobs FOR EACH ROW"
            " EXECUTE FUNCTION suppress_redundant_updates_trigger()"
        ),
        _not_granted("TRIGGER", "{a}.background_jobs"),
    ),
    "a rule": ("CREATE RULE r AS ON DELETE TO {a}.orders DO INSTEAD NOTHING", NO_SUPERUSER),
    "a changed table": ("ALTER TABLE {a}.orders DISABLE TRIGGER ALL", NO_SUPERUSER),
    "an unpinned function": ("ALTER FUNCTION {a}.jobs_finish{key_a} RESET search_path", NO_SUPERUSER),
    "a temporary table": ("CREATE TEMP TABLE background_jobs ()", _not_granted("TEMP", "DATABASE {database}")),
    # One's own jobs, around the functions.
    "a forged status": ("UPDATE {a}.background_jobs SET status = 'x'", _not_granted("UPDATE", "{a}.background_jobs")),
    "a forged item": ("DELETE FROM {a}.background_job_items", _not_granted("DELETE", "{a}.background_job_items")),
    "a forged audit": (
        "DELETE FROM {a}.background_job_event_rows",
        _not_granted("DELETE", "{a}.background_job_event_rows"),
    ),
    "a forged ledger": ("DELETE FROM {a}.schema_migrations", _not_granted("DELETE", "{a}.schema_migrations")),
    "another's notifications": ("SELECT FROM {a}.notifications", _not_granted("SELECT", "{a}.notifications")),
    "an inner function": (
        "SELECT {a}.job_end{key_a}(gen_random_uuid(), 'completed', NULL, NULL, NULL)",
        _not_granted("EXECUTE", "FUNCTION {a}.job_end{key_a}"),
    ),
    "the engine's function": (
        "SELECT {a}.job_expire{key_a}()",
        _not_granted("EXECUTE", "FUNCTION {a}.job_expire{key_a}"),
    ),
    "the web's function": (
        "SELECT {a}.job_cancel{key_a}(gen_random_uuid(), NULL, NULL)",
        _not_granted("EXECUTE", "FUNCTION {a}.job_cancel{key_a}"),
    ),
    "the jobs locked": (
        "LOCK TABLE {a}.background_jobs IN SHARE MODE",
        _not_granted("UPDATE", "{a}.background_jobs"),
    ),
    "emptied at once": ("TRUNCATE {a}.invoice_lines", _not_granted("TRUNCATE", "{a}.invoice_lines")),
    # The control schema.
    "read tickets": ("SELECT FROM turno.tickets", OUT_OF_CONTROL),
    "forge a ticket": (
        (
            "INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend)"
            " VALUES (gen_random_uuid(), 1, 'q', 't', 1, 1, now(), 'ready', 'exec')"
        ),
        OUT_OF_CONTROL,
    ),
    "read the directory": ("SELECT FROM turno.tenants", OUT_OF_CONTROL),
    "promote tickets": ("SELECT turno.promote(1)", OUT_OF_CONTROL),
    "change a setting": ("UPDATE turno.settings SET value = ''", OUT_OF_CONTROL),
    # Objects that the whole database, or the whole server, shares.
    "an advisory lock": ("SELECT pg_advisory_lock(1)", _not_granted("EXECUTE", "FUNCTION pg_advisory_lock(bigint)")),
    "an advisory lock, tried": (
        "SELECT pg_try_advisory_xact_lock_shared(1, 1)",
        _not_granted("EXECUTE", "FUNCTION pg_try_advisory_xact_lock_shared(int, int)"),
    ),
    "the lock of a quota": (
        "SELECT pg_advisory_xact_lock(1, 1)",
        _not_granted("EXECUTE", "FUNCTION pg_advisory_xact_lock(int, int)"),
    ),
    "a large object": ("SELECT lo_create(0)", _not_granted("EXECUTE", "FUNCTION lo_create(oid)")),
    "a large object, filled": (
        "SELECT lo_from_bytea(0, 'x')",
        _not_granted("EXECUTE", "FUNCTION lo_from_bytea(oid, bytea)"),
    ),
    "the server's log, filled": (
        "SELECT pg_logical_emit_message(false, 'x', repeat('x', 1000))",
        _not_granted("EXECUTE", "FUNCTION {emit_message}"),
    ),
    "the bound of temporary files": ("SET temp_file_limit = -1", NO_SUPERUSER),
    "the bound of temporary files, for later": ("ALTER ROLE CURRENT_USER SET temp_file_limit = -1", NO_SUPERUSER),
    "a file of the server": (
        "SELECT pg_read_file('PG_VERSION')",
        _not_granted("EXECUTE", "FUNCTION pg_read_file(text)"),
    ),
    "a program": ("COPY (SELECT) TO PROGRAM 'cat > /dev/null'", NO_PROGRAMS),
    "a way out": ("CREATE FOREIGN DATA WRAPPER out", NO_SUPERUSER),
    "passwords": ("SELECT FROM pg_authid", NO_SUPERUSER),
    "a role": ("CREATE ROLE {stray}", NO_SUPERUSER),
    "one's own powers": ("ALTER ROLE {r_a} BYPASSRLS", NO_SUPERUSER),
    "one's own connection limit": ("ALTER ROLE {r_a} CONNECTION LIMIT 1000", NO_SUPERUSER),
    "another's password": ("ALTER ROLE {r_b} PASSWORD 'known'", NO_SUPERUSER),
    "another's defaults": ("ALTER ROLE {r_b} SET search_path = {a}", NO_SUPERUSER),
    "everybody's defaults": ("ALTER DATABASE {database} SET search_path = {a}", NO_SUPERUSER),
}
