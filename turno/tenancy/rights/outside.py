"""The rights of a tenant's roles outside of its schema: capabilities grant, revoke and check these rights."""

from collections.abc import Iterator
from typing import Any

from psycopg import Connection

from turno.capability import Outside, installed
from turno.errors import TurnoError
from turno.named import load
from turno.tenancy.rights.schemas import Schema


class ApplicationChanged(TurnoError):
    """A right on a changed object of the application cannot be granted; the message names the remedy."""


def outside() -> Iterator[Outside]:
    """Yield the functions of the installed capabilities."""
    yield from (one.outside for one in installed() if one.outside is not None)


def grant_outside(admin: Connection[Any], schema: Schema) -> bool:
    """Grant the rights, as the provisioner; return whether one changed. Raises ApplicationChanged."""
    changed: list[bool] = [load(one.grant)(admin, schema) for one in outside()]
    return any(changed)


def revoke_outside(admin: Connection[Any], schema: Schema) -> None:
    """Revoke the rights of a tenant that is removed, as the provisioner."""
    for one in outside():
        load(one.revoke)(admin, schema)
