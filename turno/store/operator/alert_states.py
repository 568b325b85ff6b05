"""Keep which alerts are raised, and the messages that are still to be delivered, as the operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import class_row

Operator = psycopg.Connection[Any]
MOST_EVENTS = 1000  # that one message tells of; further ones follow in the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that is wrong now; the key says whether it is the same as before."""

    key: str
    kind: str
    tenant: str | None
    sentence: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RaisedAlert:
    """An alert since it was raised."""

    kind: str
    tenant: str | None
    sentence: str
    command: str
    raised_at: datetime
    told_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What a message tells of an alert: `raised`, `repeated` while it lasts, or `recovered`."""

    id: int
    event: str
    kind: str
    tenant: str | None
    sentence: str
    command: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """How many events wait for a receiver, after how many tries, and when the next one is."""

    receiver: str
    events: int
    tries: int
    next_at: datetime | None


def record(
    operator: Operator, alerts: Sequence[Alert], receivers: Sequence[str], *, repeat: timedelta, settle: timedelta
) -> None:
    """Raise what is new, repeat what lasts, and end what was not seen for `settle`; each is an event for each receiver.

    All of it is one transaction: an alert that is raised has its messages, whoever delivers them.
    """
    columns = [[getattr(one, name) for one in alerts] for name in ("key", "kind", "tenant", "sentence", "command")]
    with operator.transaction():
        operator.execute("SELECT FROM alert_states ORDER BY key FOR UPDATE")
        operator.execute(
            """
            WITH seen AS (
                SELECT * FROM unnest(%(key)s::text[], %(kind)s::text[], %(tenant)s::text[], %(sentence)s::text[],
                                     %(command)s::text[]) AS s (key, kind, tenant, sentence, command)
            ), before AS (
                SELECT key, told_at <= clock_timestamp() - %(repeat)s::interval AS again FROM alert_states
            ), kept AS (
                INSERT INTO alert_states AS a (key, kind, tenant, sentence, command) SELECT * FROM seen ORDER BY key
                ON CONFLICT (key) DO UPDATE SET sentence = excluded.sentence, seen_at = clock_timestamp(),
                    told_at = CASE WHEN a.told_at <= clock_timestamp() - %(repeat)s::interval THEN clock_timestamp()
                                   ELSE a.told_at END
            ), over AS (
                DELETE FROM alert_states a WHERE seen_at < clock_timestamp() - %(settle)s::interval
                  AND NOT EXISTS (SELECT FROM seen s WHERE s.key = a.key)
                RETURNING a.kind, a.tenant, a.sentence, a.command
            ), events AS (
                SELECT CASE WHEN b.key IS NULL THEN 'raised' ELSE 'repeated' END AS event,
                       s.kind, s.tenant, s.sentence, s.command
                FROM seen s LEFT JOIN before b ON b.key = s.key WHERE b.key IS NULL OR b.again
                UNION ALL
                SELECT 'recovered', kind, tenant, sentence, command FROM over
            )
            INSERT INTO alert_messages (receiver, event, kind, tenant, sentence, command)
            SELECT r.receiver, e.* FROM events e CROSS JOIN unnest(%(receivers)s::text[]) AS r (receiver)
            """,
            dict(zip(("key", "kind", "tenant", "sentence", "command"), columns, strict=True))
            | {"receivers": list(receivers), "repeat": repeat, "settle": settle},
        )


def take(operator: Operator, receiver: str, pauses: Sequence[timedelta]) -> list[Event]:
    """Return what is to be sent to a receiver now, oldest first; nothing before its next try.

    The next try is put off first, by one of `pauses` for each try that failed and then by the last one: whoever dies
    while sending, or never hears the answer, leaves it to that try.
    """
    with operator.transaction(), operator.cursor(row_factory=class_row(Event)) as cursor:
        row = cursor.connection.execute(
            """
            INSERT INTO alert_receivers AS r (receiver, tries, next_at)
            SELECT %(receiver)s, 1, clock_timestamp() + (%(pauses)s::interval[])[1]
            WHERE EXISTS (SELECT FROM alert_messages WHERE receiver = %(receiver)s)
            ON CONFLICT (receiver) DO UPDATE SET tries = r.tries + 1, next_at = clock_timestamp()
                + (%(pauses)s::interval[])[least(r.tries + 1, cardinality(%(pauses)s::interval[]))]
            WHERE r.next_at <= clock_timestamp()
            RETURNING true
            """,
            {"receiver": receiver, "pauses": list(pauses)},
        ).fetchone()
        if row is None:
            return []
        return cursor.execute(
            """
            SELECT id, event, kind, tenant, sentence, command, at FROM alert_messages
            WHERE receiver = %s ORDER BY id LIMIT %s
            """,
            (receiver, MOST_EVENTS),
        ).fetchall()


def delivered(operator: Operator, receiver: str, events: Sequence[Event]) -> None:
    """Forget what a receiver has got, and that earlier tries failed."""
    with operator.transaction():
        operator.execute(
            "DELETE FROM alert_messages WHERE receiver = %s AND id = ANY (%s)", (receiver, [one.id for one in events])
        )
        operator.execute("DELETE FROM alert_receivers WHERE receiver = %s", (receiver,))


def raised(operator: Operator) -> list[RaisedAlert]:
    """Return the alerts that are raised, the oldest first."""
    with operator.cursor(row_factory=class_row(RaisedAlert)) as cursor:
        return cursor.execute(
            "SELECT kind, tenant, sentence, command, raised_at, told_at FROM alert_states ORDER BY raised_at, key"
        ).fetchall()


def pending(operator: Operator) -> list[Pending]:
    """Return the receivers that have not got everything."""
    with operator.cursor(row_factory=class_row(Pending)) as cursor:
        return cursor.execute(
            """
            SELECT m.receiver, count(*) AS events, coalesce(max(r.tries), 0) AS tries, max(r.next_at) AS next_at
            FROM alert_messages m LEFT JOIN alert_receivers r ON r.receiver = m.receiver
            GROUP BY m.receiver ORDER BY m.receiver
            """
        ).fetchall()
