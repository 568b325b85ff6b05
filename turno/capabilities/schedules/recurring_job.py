"""A job at the moments of a recurrence rule: the value that schedules and templates store."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from turno.capabilities.schedules.recurrence import MOST_SPREAD, InvalidRule, Missed, Rule, rule_of
from turno.errors import InvalidPayload, NotEnqueued
from turno.jobs.converter import check_payload
from turno.jobs.handler import JobHandler
from turno.jobs.job import Priority
from turno.jobs.new_job import key_of, queue_of

NAME = "[a-z0-9][a-z0-9._-]{0,62}"
ANY_TENANT = ""  # the rule of a template is checked without the delay of a tenant
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringJob:
    """A recurring job under its name; the payload was validated and is in its canonical JSON form.

    Without a `spread` cron keeps its minute, and an interval is spread over its whole length, a day at most. Without a
    `queue` its jobs wait in the queue of their type.
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
    queue: str | None = None

    @classmethod
    def checked(
        cls, name: str, handler: type[JobHandler[Any]], user_id: str, given: Mapping[str, Any], tenant: str
    ) -> Self:
        """Return the job of a request or a command line; raises InvalidRule with all problems.

        `given` has fields as they are written: the payload is not checked yet, and the priority is a word.
        """
        problems: list[tuple[str, str]] = []
        changed: dict[str, Any] = {
            "payload": {},
            "priority": Priority[given["priority"].upper()],
            "queue": given.get("queue") or None,
        }
        try:
            changed["payload"] = check_payload(handler, given["payload"])
        except InvalidPayload as error:
            problems += [
                (".".join(filter(None, ("payload", problem["field"]))), problem["problem"])
                for problem in error.problems
            ]
        wanted = cls(name=name, handler=handler, user_id=user_id, **{**given, **changed})
        try:
            wanted.rule(tenant)
        except InvalidRule as error:
            problems += error.problems
        if problems:
            raise InvalidRule(problems)
        return wanted

    @property
    def seconds(self) -> int:
        """Return the largest delay of a moment in seconds."""
        if self.spread is not None:
            return self.spread
        return min(self.every or 0, MOST_SPREAD)

    @property
    def columns(self) -> dict[str, Any]:
        """Return the values of the columns that the tables of schedules and of templates share."""
        return {
            "name": self.name,
            "type": self.handler.type,
            "queue": self.queue,
            "payload": self.payload,
            "priority": int(self.priority),
            "user_id": self.user_id,
            "cron": self.cron,
            "every": self.every,
            "zone": self.zone,
            "spread": self.seconds,
            "missed": self.missed,
            "concurrency_key": key_of(self.handler, self.payload),
        }

    def rule(self, tenant: str) -> Rule:
        """Return the rule in a tenant; raises InvalidRule with all problems of name, queue and times."""
        problems = []
        if not re.fullmatch(NAME, self.name):
            problems.append(
                ("name", "has 1 to 63 small letters, digits, dots, dashes and underscores, a letter or digit first")
            )
        try:
            queue_of(self.handler, self.queue)
        except NotEnqueued as problem:
            problems.append(("queue", str(problem)))
        try:
            rule = rule_of(
                cron=self.cron,
                every=self.every,
                zone=self.zone,
                spread=max(-1, self.seconds),
                missed=self.missed,
                name=self.name,
                tenant=tenant,
            )
        except InvalidRule as error:
            raise InvalidRule(problems + error.problems) from None
        if problems:
            raise InvalidRule(problems)
        return rule


def stored_rule(row: Mapping[str, Any], tenant: str) -> Rule:
    """Return the rule of a stored row; raises InvalidRule if this host cannot evaluate the rule."""
    known = ("cron", "every", "zone", "spread", "missed", "name")
    return rule_of(**{name: row[name] for name in known}, tenant=tenant)
