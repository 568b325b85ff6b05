"""Count what a user and a tenant ask for, unless it is more than they may; the database's clock decides."""

from typing import Any, LiteralString

import psycopg

from turno.errors import RateLimited

Web = psycopg.Connection[Any]
# Jobs a day of a user and of a tenant, bytes of payloads a day of a user and of a tenant; 0 is no limit.
DayLimits = tuple[int, int, int, int]


def take_command(web: Web, tenant: int, user: str, *, per_user: int, per_tenant: int) -> None:
    """Count one command, or raise RateLimited; 0 is no limit."""
    if per_user or per_tenant:
        _take(web, "SELECT * FROM turno.command_take(%s, %s, %s, %s)", (tenant, user, per_user, per_tenant))


def take_job(web: Web, tenant: int, user: str, job_type: str, limits: DayLimits) -> None:
    """Count one job that is done within the request, so that no payload is kept, or raise RateLimited."""
    given = (tenant, user, job_type, array(limits))
    _take(web, "SELECT * FROM turno.submission_take(%s, %s, %s, 1, 0, %s::bigint[])", given)


def take_mail(web: Web, tenant: int, user: str, most: int) -> None:
    """Count one mail that a user asks for, or raise RateLimited; 0 is no limit."""
    if most:
        _take(web, "SELECT * FROM turno.mail_take(%s, %s, %s)", (tenant, user, most))


def array(limits: DayLimits) -> str:
    """Return the limits as the database writes them, which costs a request less than having a list adapted."""
    return f"{{{','.join(map(str, limits))}}}"


def _take(web: Web, statement: LiteralString, parameters: tuple[Any, ...]) -> None:
    row = web.execute(statement, parameters).fetchone()
    if row is not None and row[0] is not None:
        raise RateLimited(*row)
