"""Say whether the database is where this release wants it, as a service that may read little."""

from typing import Any

import psycopg

from turno.tenancy.schema_migrations.files import packaged, version_of


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
