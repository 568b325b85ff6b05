"""Acts of operators: their actor, and the acts that no changed row shows."""

from typing import Any

import psycopg


def speak_for(operator: psycopg.Connection[Any], actor: str) -> None:
    """Set the actor of the open transaction's changes."""
    operator.execute("SELECT set_config('turno.actor', %s, true)", (actor,))


def record(admin: psycopg.Connection[Any], action: str, *, subject: str) -> None:
    """Record an act that changes no row, such as a role's new rights; the provisioner may."""
    admin.execute("INSERT INTO turno.operator_acts (action, subject) VALUES (%s, %s)", (action, subject))
