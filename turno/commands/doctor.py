"""The commands `turno doctor` and `turno status`: examine settings, handlers, database and workers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from datetime import timedelta
from typing import Any, NamedTuple

import click
from psycopg import Connection

from turno.capability import backends
from turno.commands.failures import explained, line_of_cause, printable
from turno.commands.output import print_message, show, wants_json
from turno.environment import read_settings, variables
from turno.errors import InvalidSettings
from turno.jobs.handler import named_handlers
from turno.jobs.moment import written
from turno.settings import PREFIX, Settings, variable_of
from turno.store.engine.announcements import RAISE_VERSION, changed_payloads
from turno.store.operator.troubles import Trouble, troubles
from turno.tenancy.catalog import check
from turno.tenancy.rights.public_rights import hosts, public_rights
from turno.tenancy.schema_migrations import all_schemas
from turno.wiring.logins import logins_of, operator_session
from turno.wiring.provisioner import admin_session, migrations, tenant_connections


class Advice(NamedTuple):
    """A problem with its repair; a `fatal` problem prevents the remaining checks."""

    problem: str
    mend: str
    fatal: bool = False


CORRECT = "correct it in .env or in the environment"


def of_settings(variables: Mapping[str, str]) -> Iterator[Advice]:
    """Yield every setting that lacks its prefix, is wrong or missing, or names a module that cannot be loaded."""
    for setting in fields(Settings):
        name = setting.name.upper()
        if name in variables and not Settings.value(variables, setting.name):
            yield Advice(f"{name} is not a setting, {PREFIX}{name} is", "rename it in .env or in the environment")
    try:
        settings = Settings.read(variables).require("database_url", "master_key", "jwt_key", "handlers")
    except InvalidSettings as wrong:
        yield from (Advice(problem, CORRECT, fatal=True) for problem in wrong.problems)
        return
    yield from _loaded(lambda: logins_of(settings))
    yield from _loaded(migrations)
    yield from _loaded(lambda: named_handlers(settings.handlers))
    for name in backends()[settings.queue_backend].needs:
        if not getattr(settings, name):
            yield Advice(f"QUEUE_BACKEND={settings.queue_backend} needs {variable_of(name)}", CORRECT)


def _loaded(load: Callable[[], object]) -> Iterator[Advice]:
    try:
        load()
    except InvalidSettings as wrong:
        line = line_of_cause(wrong)
        mend = f"correct {line}" if line else CORRECT
        yield from (Advice(problem, mend, fatal=True) for problem in wrong.problems)


OLDEST = 150000  # server_version_num of PostgreSQL 15
SHOWN = 5  # findings about rights


def of_database(settings: Settings, explained: Callable[[BaseException], str | None]) -> Iterator[Advice]:
    """Yield the problems of the database; an unreachable database is a single problem."""
    try:
        with admin_session(settings) as admin:
            advices = list(_installed(admin, settings))
            yield from advices
            if any(advice.fatal for advice in advices):
                return
            yield from _rights(admin, settings)
            yield from refused_roles(admin)
            yield from shared_types(admin, settings)
            yield from _sessions(admin, settings)
        with operator_session(settings) as operator:
            for trouble in troubles(operator, timedelta(seconds=settings.dead_after_seconds)):
                yield Advice(trouble.sentence, f"run `{trouble.command}`")
    except Exception as error:
        if not (message := explained(error)):
            raise
        yield Advice(message, "then run `turno doctor` again")


def _installed(admin: Connection[Any], settings: Settings) -> Iterator[Advice]:
    if admin.info.server_version < OLDEST:
        version = admin.info.parameter_status("server_version")
        yield Advice(f"PostgreSQL {version} is too old", "upgrade the server to 15 or newer", fatal=True)
        return
    standings = all_schemas.status(admin, logins_of(settings), migrations=migrations())
    if not standings[0].at:
        if public_rights(admin) and (others := len(hosts(admin))):
            what = f"Turno is not installed, and {others} other roles exist: they keep their rights"
            yield Advice(what, "run `turno db plan`, then `turno db migrate`", fatal=True)
        else:
            yield Advice("Turno is not installed in this database", "run `turno db migrate`", fatal=True)
        return
    for schema in standings:
        if schema.trouble:
            yield Advice(f"schema {schema.schema}: {schema.trouble}", "run `turno db status` and mend it")
    if behind := [schema for schema in standings if schema.pending or schema.redefine]:
        yield Advice(f"{len(behind)} of {len(standings)} schemas are behind this release", "run `turno db migrate`")
    yield from (Advice(change, RAISE_VERSION) for change in changed_payloads(admin))
    if len(standings) == 1:
        yield Advice("there is no tenant", "run `turno tenant add SLUG --company COMPANY --name NAME`")


def _rights(admin: Connection[Any], settings: Settings) -> Iterator[Advice]:
    findings = check(admin, logins_of(settings))
    for finding in findings[:SHOWN]:
        yield Advice(str(finding), "run `turno db migrate`")
    if len(findings) > SHOWN:
        yield Advice(f"{len(findings) - SHOWN} further rights differ", "run `turno db check` for all of them")


def refused_roles(admin: Connection[Any]) -> Iterator[Advice]:
    """Yield each role of the application with rights or objects in this database that PostgreSQL lets not connect."""
    rows = admin.execute(
        "SELECT r.rolname FROM pg_catalog.pg_roles r WHERE r.rolcanlogin AND r.rolname = ANY (%s)"
        " AND NOT has_database_privilege(r.oid, current_database(), 'CONNECT') AND EXISTS ("
        "SELECT FROM pg_catalog.pg_shdepend d JOIN pg_catalog.pg_database b ON b.oid = d.dbid"
        " WHERE b.datname = current_database() AND d.refclassid = 'pg_authid'::regclass AND d.refobjid = r.oid)"
        " ORDER BY 1",
        [[host.name for host in hosts(admin)]],
    )
    for (role,) in rows:
        problem = f"PostgreSQL refuses connections of {role}: the installation revoked CONNECT from PUBLIC"
        yield Advice(problem, f"run `turno host add {role}`")


def shared_types(admin: Connection[Any], settings: Settings) -> Iterator[Advice]:
    """Yield each host with workers of another application, or release, that run types of TURNO_HANDLERS."""
    rows = admin.execute(
        "SELECT DISTINCT host, types FROM turno.workers WHERE alive_at > clock_timestamp() - %(alive)s"
        " UNION SELECT host, types FROM turno.exec_hosts WHERE seen_at > clock_timestamp() - interval '1 hour'"
        " ORDER BY 1",
        {"alive": timedelta(seconds=settings.dead_after_seconds)},
    )
    own = {handler.type for handler in named_handlers(settings.handlers).handlers}
    for host, types in rows:
        if (both := own.intersection(types)) and (foreign := set(types) - own):
            yield Advice(
                f"workers of {host} run {_names(both)} of this TURNO_HANDLERS, and {_names(foreign)} of other code",
                "stop workers of an old release; if two applications share this installation, rename the types of one",
            )


def _names(types: Iterable[str]) -> str:
    return ", ".join(sorted(types)[:SHOWN])


def _sessions(admin: Connection[Any], settings: Settings) -> Iterator[Advice]:
    row = admin.execute(
        "SELECT current_setting('max_connections')::integer"
        " - current_setting('superuser_reserved_connections')::integer,"
        " (SELECT greatest(1, count(DISTINCT host)) FROM turno.workers)"
    ).fetchone()
    free, hosts_at_work = row or (0, 1)
    needed = hosts_at_work * sessions_of_a_host(settings)
    if needed > free:
        yield Advice(
            f"{hosts_at_work} hosts with these settings may open {needed} sessions, and max_connections has room for"
            f" {free}",
            "raise max_connections, or lower TURNO_WEB_THREADS, TURNO_MAX_CHILDREN or TURNO_LIMITS child_sessions",
        )
    enough = tenant_connections(admin, settings)
    limits = admin.execute(_LOWEST_LIMIT, [enough]).fetchone()
    if limits and limits[0] is not None:
        yield Advice(
            f"a tenant's handlers may open {limits[0]} sessions, and {hosts_at_work} hosts with these settings run"
            f" children for {enough}",
            "run `turno db migrate`, which raises each tenant's limit",
        )
    services = hosts_at_work * (sessions_of_a_web(settings) + 3)
    reserved = admin.execute("SELECT current_setting('reserved_connections', true)::integer").fetchone()
    if reserved and reserved[0] is not None and reserved[0] < services:
        yield Advice(
            f"reserved_connections is {reserved[0]}: handlers may use the connections of web, workers and operators",
            f"set reserved_connections = {services} and restart the server",
        )


_LOWEST_LIMIT = """
SELECT min(r.rolconnlimit) FROM turno.tenants n JOIN pg_catalog.pg_roles r ON r.rolname = n.handler_role
WHERE n.state = 'active' AND r.rolconnlimit BETWEEN 0 AND %s - 1
"""


def sessions_of_a_host(settings: Settings) -> int:
    """Return how many sessions one host's web and workers may open with these settings."""
    return sessions_of_a_web(settings) + sessions_of_a_worker(settings)


def sessions_of_a_web(settings: Settings) -> int:
    """Return how many sessions one `turno serve` may open: for requests, streams, operators, maintenance, hints."""
    hints = 0 if settings.queue_backend == "exec" else 1
    return settings.web_workers * (settings.web_threads + 2 + 4 + 2 + hints)


def sessions_of_a_worker(settings: Settings) -> int:
    """Return how many sessions one resident worker, or with `exec` a host's workers, may open."""
    if settings.queue_backend == "exec":
        return 3 * (settings.max_children + settings.reserve_children) + 1
    own = backends()[settings.queue_backend].sessions
    children = settings.max_children + settings.reserve_children
    return own + children * (2 + settings.limits.child_sessions)


@click.command(epilog="Example: turno doctor --json")
def doctor() -> int:
    """Examine settings, handlers, database and workers; each line ends with the remedy. Changes nothing.

    Exit status 1 if something is wrong.
    """
    count = 0
    for advice in _advice():
        count += 1
        print_message(printable(f"{advice.problem}; {advice.mend}"), problem=advice.problem, remedy=advice.mend)
    print_message(f"{count} to mend" if count else "everything is as it should be")
    return int(bool(count))


def _advice() -> Iterator[Advice]:
    advices = list(of_settings(variables()))
    yield from advices
    if any(advice.fatal for advice in advices):
        return
    yield from of_database(read_settings(), explained)


@click.command(epilog="Example: turno status --all")
@click.option("--all", "everything", is_flag=True, help="Print all problems, not only the worst.")
def status(*, everything: bool) -> int:
    """State whether anything is wrong: affected tenant, start and repairing command; exit status 1 if so."""
    settings = read_settings()
    with operator_session(settings) as operator:
        raised = troubles(operator, timedelta(seconds=settings.dead_after_seconds))
    if wants_json():
        show([trouble._asdict() for trouble in raised])
    elif not raised:
        click.echo("nothing is wrong")
    else:
        for trouble in raised if everything else raised[:1]:
            click.echo(sentence(trouble))
        if len(raised) > 1 and not everything:
            click.echo(f"and {len(raised) - 1} more: turno status --all")
    return int(bool(raised))


def sentence(trouble: Trouble) -> str:
    """Return the trouble on one line."""
    since = f", since {written(trouble.since)}" if trouble.since else ""
    return printable(f"{trouble.sentence}{since}; run `{trouble.command}`")
