"""A consolidated report over all branches of a company, with attacks on request."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql

from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job_context import JobContext


@dataclass(frozen=True, slots=True)
class ConsolidatedPayload:
    """SQL to try in the report's session, by name."""

    attacks: dict[str, str] = field(default_factory=dict)


class Consolidated(JobHandler[ConsolidatedPayload]):
    """Counts the orders of each branch, and returns the outcome of each attack."""

    type = "consolidated"
    reads_company = True

    def handle(self, job: JobContext, payload: ConsolidatedPayload) -> dict[str, Any]:
        """Read, then try."""
        session = job.company.connection
        orders = {
            slug: value(session, sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(schema, "orders")))
            for slug, schema in job.company.branches.items()
        }
        return {
            "orders": orders,
            "own": value(session, sql.SQL("SELECT count(*) FROM orders")),
            "isolation": value(session, sql.SQL("SHOW transaction_isolation")),
            "read only": value(session, sql.SQL("SHOW transaction_read_only")),
            "attacks": {name: tried(session, attack) for name, attack in payload.attacks.items()},
        }


class Curious(JobHandler[ConsolidatedPayload]):
    """Reads its company without the declaration."""

    type = "curious"

    def handle(self, job: JobContext, payload: ConsolidatedPayload) -> dict[str, Any]:
        """Ask."""
        del payload
        return {"branches": dict(job.company.branches)}


@dataclass(frozen=True, slots=True)
class NoFields:
    """A payload without fields."""


class CashRegister(JobHandler[NoFields]):
    """Counts the orders of the branch of a cash register, and its own."""

    type = "cash_register"

    def handle(self, job: JobContext, payload: NoFields) -> dict[str, Any]:
        """Read the parent's table by its schema, and the table of the tenant by its name."""
        del payload
        assert job.parent_schema is not None
        orders = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(job.parent_schema, "orders"))
        return {
            "orders": value(job.connection, orders),
            "own": value(job.connection, sql.SQL("SELECT count(*) FROM orders")),
        }


def value(session: psycopg.Connection[Any], query: sql.Composed | sql.SQL) -> Any:
    """Return the single value of a single row."""
    row = session.execute(query).fetchone()
    assert row is not None
    return row[0]


def tried(session: psycopg.Connection[Any], attack: str) -> str:
    """Return the error of a refusal; in autocommit, so that no open transaction protects."""
    session.execute("ROLLBACK")
    try:
        session.execute(attack.encode())
    except psycopg.Error as error:
        return type(error).__name__
    return "done"


REGISTRY = Registry(
    {handler.type: f"tests.reporting_handlers:{handler.__name__}" for handler in (Consolidated, Curious, CashRegister)}
)
