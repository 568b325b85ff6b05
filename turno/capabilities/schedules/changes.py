"""Save, pause, resume and remove schedules: the first moment is decided here, by the database's clock."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from turno.capabilities.schedules import stored
from turno.jobs.handler import JobHandler
from turno.jobs.job import Priority
from turno.jobs.new_job import key_of
from turno.jobs.recurrence import MOST_SPREAD, InvalidRule, Missed, Rule, rule_of
from turno.store.refusals import named_refusals
from turno.tenancy.identity.session import as_api, call_as_api
from turno.tenancy.identity.tenant import Tenant

NAME = "[a-z0-9][a-z0-9._-]{0,62}"
MOST_SCHEDULES = 1000  # of a tenant
Connection = psycopg.Connection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSchedule:
    """A schedule to be saved under its name; the payload was validated and is in its canonical JSON form.

    Without a `spread` cron keeps its minute, and an interval is spread over the whole of itself, a day at most.
    """

    name: str
    handler: type[JobHandler[Any]]
    payload: dict[str, Any]
    user_id: str
    cron: str | None = None
    every: int | None = None
    zone: str = "UTC"
    spread: int | None = None
    missed: Missed = "once"
    priority: Priority = Priority.NORMAL

    @property
    def seconds(self) -> int:
        """Return over how many seconds it is spread."""
        if self.spread is not None:
            return self.spread
        return min(self.every or 0, MOST_SPREAD)


def checked_rule(wanted: NewSchedule, tenant: Tenant) -> Rule:
    """Return when it would fire; raises InvalidRule with everything that is wrong with its name and times."""
    problems = []
    if not re.fullmatch(NAME, wanted.name):
        problems.append(
            ("name", "has 1 to 63 small letters, digits, dots, dashes and underscores, a letter or digit first")
        )
    try:
        rule = rule_of(
            cron=wanted.cron,
            every=wanted.every,
            zone=wanted.zone,
            spread=max(-1, wanted.seconds),
            missed=wanted.missed,
            name=wanted.name,
            tenant=tenant.slug,
        )
    except InvalidRule as error:
        raise InvalidRule(problems + error.problems) from None
    if problems:
        raise InvalidRule(problems)
    return rule


def stored_rule(row: Mapping[str, Any], tenant: Tenant) -> Rule:
    """Return when a stored schedule fires; raises InvalidRule if this host cannot tell."""
    known = ("cron", "every", "zone", "spread", "missed", "name")
    return rule_of(**{name: row[name] for name in known}, tenant=tenant.slug)


def save(
    connection: Connection,
    tenant: Tenant,
    wanted: NewSchedule,
    *,
    only: str | None,
    create: bool = True,
    replace: bool = True,
) -> str:
    """Save it: created, changed, exists, unknown or full, as the function in the schema says.

    `only` is the user who may change no other's; None for an operator. Raises InvalidRule, and LimitExceeded if a value
    in it is too large to be stored.
    """
    rule = checked_rule(wanted, tenant)
    with as_api(connection, tenant) as reader:
        now = stored.present(reader)
    with named_refusals():
        row = call_as_api(
            connection,
            tenant,
            stored.PUT,
            (
                wanted.name, wanted.handler.type, Jsonb(wanted.payload), int(wanted.priority), wanted.user_id,
                wanted.cron, wanted.every, wanted.zone, wanted.seconds, wanted.missed, rule.next_after(now), only,
                create, replace, MOST_SCHEDULES, key_of(wanted.handler, wanted.payload),
            ),
        )  # fmt: skip
    return str(row["verdict"])


def pause(connection: Connection, tenant: Tenant, name: str, *, only: str | None) -> str:
    """Let it make no jobs until it is resumed: changed, same or unknown."""
    return str(call_as_api(connection, tenant, stored.SWITCH, (name, None, only))["verdict"])


def resume(connection: Connection, tenant: Tenant, name: str, *, only: str | None) -> str:
    """Let it fire again from its next moment on: changed, same or unknown; what lay between was not missed."""
    with as_api(connection, tenant) as reader:
        row = stored.find(reader, name, only)
    if row is None:
        return "unknown"
    next_at = stored_rule(row, tenant).next_after(row["now"])
    return str(call_as_api(connection, tenant, stored.SWITCH, (name, next_at, only))["verdict"])


def remove(connection: Connection, tenant: Tenant, name: str, *, only: str | None) -> bool:
    """Remove it; false if there was none. Jobs that it made stay, but for those whose moment is still to come."""
    return bool(call_as_api(connection, tenant, stored.REMOVE, (name, only))["removed"])
