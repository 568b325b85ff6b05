"""Objects and steps that a schema lacks, for the web: from its own session, or from the error of a statement."""

import re
from functools import cache
from typing import Any

import psycopg

from turno.capability import LIBRARY, installed
from turno.tenancy.identity.function_names import short_name
from turno.tenancy.rights.grants import CONTROL, TENANT
from turno.tenancy.schema_migrations.files import packaged, version_of

UNDEFINED = ("42P01", "42883")  # SQLSTATEs of an undefined table and an undefined function


def what_is_pending(web: psycopg.Connection[Any]) -> str | None:
    """Return a sentence if the control schema lacks a migration of this release, None if it has them all.

    Tenants' schemas are brought up one by one while others work, so they are not checked. Nor is the text of functions:
    while releases change, it is the newer one's, and an older release that runs on is no less ready.
    """
    try:
        rows = web.execute("SELECT source, version FROM turno.schema_migrations").fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        # The right to look comes with the migrations, too.
        return "Migrations are pending; run `turno db migrate`."
    lacking = sorted(packaged().control.steps.keys() - {version_of(*row) for row in rows})
    if lacking:
        return f"Migrations are pending, from {lacking[0]} on; run `turno db migrate`."
    return None


def missing_in(error: Exception) -> str | None:
    """Return the table or function of this release that the schema lacks, with its source, or None for other errors."""
    if getattr(error, "sqlstate", None) not in UNDEFINED:
        return None
    words = re.findall(r"\w+", str(error).partition("\n")[0])
    names = map(short_name, words)
    return next((f"{name} of {source}" for name in names if (source := _sources().get(name))), None)


@cache
def _sources() -> dict[str, str]:
    """Return the source of each table and function of this release, by name."""
    migrations = packaged()
    relations = dict.fromkeys((*CONTROL.relations, *TENANT.relations), LIBRARY)
    for capability in installed():
        relations |= dict.fromkeys((*capability.control.relations, *capability.tenant.relations), capability.name)
    return relations | migrations.control.function_sources | migrations.tenant.function_sources
