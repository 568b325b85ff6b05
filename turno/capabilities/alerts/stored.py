"""The raised alerts and the undelivered messages, as the operator."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from psycopg.rows import class_row

from turno.store.operator.counts import Operator, Row, rows

MOST_EVENTS = 1000  # of one message; the next message has further events


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A present trouble; its key identifies it in later rounds, and the alert of the smallest rank comes first."""

    key: str
    kind: str
    tenant: str | None
    sentence: str
    command: str
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A change of an alert in a message: `raised`, `repeated` while it lasts, or `recovered`."""

    id: int
    event: str
    kind: str
    tenant: str | None
    sentence: str
    command: str
    at: datetime


def record(
    operator: Operator, alerts: Sequence[Alert], receivers: Sequence[str], *, repeat: timedelta, settle: timedelta
) -> None:
    """Raise new alerts, repeat lasting alerts, and end alerts without a trouble for `settle`.

    Each change is an event for each receiver, in the same transaction. Waiting events get the present sentence of their
    alert. For a new receiver, present alerts are new.
    """
    columns = ("key", "kind", "tenant", "sentence", "command", "rank")
    with operator.transaction():
        operator.execute("SELECT FROM alert_states ORDER BY key FOR UPDATE")
        operator.execute(
            """
            WITH seen AS (
                SELECT * FROM unnest(%(key)s::text[], %(kind)s::text[], %(tenant)s::text[], %(sentence)s::text[],
                                     %(command)s::text[], %(rank)s::integer[])
                    AS s (key, kind, tenant, sentence, command, rank)
            ), before AS (
                SELECT key, receivers, sent_at <= clock_timestamp() - %(repeat)s::interval AS again FROM alert_states
            ), kept AS (
                INSERT INTO alert_states AS a (key, kind, tenant, sentence, command, rank, receivers)
                SELECT *, %(receivers)s::text[] FROM seen ORDER BY key
                ON CONFLICT (key) DO UPDATE SET seen_at = clock_timestamp(), receivers = excluded.receivers,
                    tenant = excluded.tenant, sentence = excluded.sentence, command = excluded.command,
                    rank = excluded.rank,
                    sent_at = CASE WHEN a.sent_at <= clock_timestamp() - %(repeat)s::interval THEN clock_timestamp()
                                   ELSE a.sent_at END
            ), over AS (
                DELETE FROM alert_states a WHERE seen_at < clock_timestamp() - %(settle)s::interval
                  AND NOT EXISTS (SELECT FROM seen s WHERE s.key = a.key)
                RETURNING a.key, a.kind, a.tenant, a.sentence, a.command, a.rank
            ), waiting AS (
                UPDATE alert_messages m
                SET tenant = s.tenant, sentence = s.sentence, command = s.command, rank = s.rank
                FROM seen s
                WHERE s.key = m.key AND m.event <> 'recovered' AND (m.sentence, m.rank) <> (s.sentence, s.rank)
            )
            INSERT INTO alert_messages (receiver, event, key, kind, tenant, sentence, command, rank)
            SELECT r.receiver, CASE WHEN r.receiver = ANY (b.receivers) THEN 'repeated' ELSE 'raised' END, s.*
            FROM seen s CROSS JOIN unnest(%(receivers)s::text[]) AS r (receiver) LEFT JOIN before b ON b.key = s.key
            WHERE b.again OR r.receiver = ANY (b.receivers) IS NOT TRUE
            UNION ALL
            SELECT r.receiver, 'recovered', o.* FROM over o CROSS JOIN unnest(%(receivers)s::text[]) AS r (receiver)
            """,
            {name: [getattr(alert, name) for alert in alerts] for name in columns}
            | {"receivers": list(receivers), "repeat": repeat, "settle": settle},
        )


def take(operator: Operator, receiver: str, pauses: Sequence[timedelta]) -> list[Event]:
    """Return the events to be sent to a receiver now, by rank, ends last; none before its next try.

    First the next try is postponed, by one of `pauses` for each failed try and then by the last pause: after a crash
    while sending, or without an answer, that try repeats the delivery.
    """
    with operator.cursor(row_factory=class_row(Event)) as cursor:
        return cursor.execute(
            """
            WITH taken AS (
                UPDATE alert_messages m SET tries = r.tries + 1, next_at = clock_timestamp()
                    + (%(pauses)s::interval[])[least(r.tries + 1, cardinality(%(pauses)s::interval[]))]
                FROM (SELECT max(tries) AS tries, max(next_at) AS next_at FROM alert_messages
                      WHERE receiver = %(receiver)s) AS r
                WHERE m.receiver = %(receiver)s AND greatest(m.next_at, r.next_at) <= clock_timestamp()
                RETURNING m.*
            )
            SELECT id, event, kind, tenant, sentence, command, at FROM taken
            ORDER BY event = 'recovered', rank, id LIMIT %(most)s
            """,
            {"receiver": receiver, "pauses": list(pauses), "most": MOST_EVENTS},
        ).fetchall()


def delivered(operator: Operator, receiver: str, events: Sequence[Event]) -> None:
    """Delete the delivered events of a receiver; further events may be sent at once."""
    with operator.transaction():
        ids = [event.id for event in events]
        operator.execute("DELETE FROM alert_messages WHERE receiver = %s AND id = ANY (%s)", (receiver, ids))
        operator.execute("UPDATE alert_messages SET tries = 0, next_at = '-infinity' WHERE receiver = %s", (receiver,))


def raised(operator: Operator) -> list[Row]:
    """Return the raised alerts by rank: kind, tenant, sentence, command, raised_at, and sent_at of the last message."""
    return rows(
        operator, "SELECT kind, tenant, sentence, command, raised_at, sent_at FROM alert_states ORDER BY rank, key"
    )


def pending(operator: Operator) -> list[Row]:
    """Return each receiver with undelivered events: receiver, events, tries, and next_at, the time of the next try."""
    return rows(
        operator,
        """
        SELECT receiver, count(*) AS events, max(tries) AS tries, nullif(max(next_at), '-infinity') AS next_at
        FROM alert_messages GROUP BY receiver ORDER BY receiver
        """,
    )
