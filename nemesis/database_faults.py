"""Faults of a tenant's schema and of shared server resources; each returns the function that ends the fault."""

from __future__ import annotations

import logging
import subprocess
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from nemesis.environment import TABLES
from turno.tenancy.identity.function_names import own_name
from turno.wiring.shared import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from nemesis.environment import Environment
    from turno.tenancy.identity.tenant import Tenant

log = logging.getLogger(__name__)
LOCK = "LOCK TABLE background_jobs, background_job_attempts, background_job_events IN EXCLUSIVE MODE"
MISSING = "{}_of_the_next_release"
FUNCTIONS = sorted(TABLES.tenant.function_sources)
LARGEST = 7_900  # bytes of a notification
RESTORE_TRIES = 20


def strike(environment: Environment, kind: str, fraction: float) -> Callable[[], object] | None:
    """Begin a fault of DATABASE for the tenant (and function) at this fraction; return None if the fault fails."""
    tenant = environment.tenants[int(fraction * len(environment.tenants))]
    match kind:
        case "lock tenant":
            return lock_job_tables(environment, tenant)
        case "old schema":
            function = FUNCTIONS[int(fraction * 37 % 1 * len(FUNCTIONS))]
            log.info("old schema: %s without %s", tenant.slug, function)
            return take_function_away(environment, tenant, function)
        case "pause tenant":
            return pause(environment, tenant)
        case _:
            return fill_notifications(environment)


def lock_job_tables(environment: Environment, tenant: Tenant) -> Callable[[], object] | None:
    """Lock the tenant's job tables in EXCLUSIVE MODE: writes wait. Return None if a lock was not free."""
    session = _session(environment, tenant)
    try:
        session.execute("SET lock_timeout = '900ms'")  # below deadlock_timeout: no worker is the victim of this wait
        session.execute("BEGIN")
        session.execute(LOCK)
    except psycopg.Error:
        session.close()
        return None
    return session.close


def take_function_away(environment: Environment, tenant: Tenant, name: str) -> Callable[[], object] | None:
    """Rename a function of the tenant's schema; return None if the function is missing already."""
    try:
        _rename(environment, tenant, name, MISSING.format(name))
    except psycopg.Error:
        return None
    return partial(_give_back, environment, tenant, name)


def pause(environment: Environment, tenant: Tenant) -> Callable[[], object] | None:
    """Pause the tenant as an operator does; return None if the command fails."""
    if not _set_tenant(environment, tenant, "--paused"):
        return None
    return partial(_until_done, lambda: _set_tenant(environment, tenant, "--resumed"))


def fill_notifications(environment: Environment) -> Callable[[], object] | None:
    """Fill the server's notification queue; a listening session in an open transaction holds the tail of the queue."""
    listener = _session(environment)
    try:
        listener.execute("LISTEN nemesis_full")
        listener.execute("BEGIN")
        listener.execute("SELECT 1")
        with environment.admin() as sender, suppress(psycopg.errors.ProgramLimitExceeded):
            while True:
                sender.execute("SELECT pg_notify('nemesis_full', repeat('x', %s))", (LARGEST,))
    except psycopg.Error:
        listener.close()
        return None
    return listener.close


def _session(environment: Environment, tenant: Tenant | None = None) -> psycopg.Connection[Any]:
    session = psycopg.connect(environment.url, autocommit=True, connect_timeout=5)
    if tenant is not None:
        session.execute(sql.SQL("SET search_path = {}, pg_catalog").format(sql.Identifier(tenant.schema)))
    return session


def _rename(environment: Environment, tenant: Tenant, name: str, new: str) -> None:
    statement = sql.SQL("ALTER FUNCTION {} RENAME TO {}")
    with environment.admin(tenant) as session:
        own = (sql.Identifier(own_name(function, tenant.schema)) for function in (name, new))
        session.execute(statement.format(*own))


def _give_back(environment: Environment, tenant: Tenant, name: str) -> None:
    def given_back() -> bool:
        with suppress(psycopg.OperationalError):
            _rename(environment, tenant, MISSING.format(name), name)
            return True
        return False

    _until_done(given_back)


def _set_tenant(environment: Environment, tenant: Tenant, option: str) -> bool:
    command = [sys.executable, "-m", "turno.commands.main", "tenant", "set", tenant.slug, option]
    variables = environment.web_variables()
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, check=False).returncode == 0


def _until_done(attempt: Callable[[], bool]) -> None:
    if not any(attempt() for _ in range(RESTORE_TRIES)):
        raise RuntimeError("a fault could not be ended: the run cannot be judged")
