"""The installation's logins by its settings: all that most commands need, which load neither queues nor runner."""

import psycopg

from turno.errors import InvalidSettings
from turno.process_name import person
from turno.settings import Settings
from turno.tenancy.identity.connections import TimeoutConnection
from turno.tenancy.identity.logins import Logins
from turno.tenancy.identity.session import service_session


def logins_of(settings: Settings) -> Logins:
    """Return the installation's logins; raises InvalidSettings if they cannot be derived."""
    settings.require("database_url", "master_key")
    try:
        return Logins(settings.database_url, settings.master_key.encode(), settings.installation_id)
    except ValueError as problem:
        raise InvalidSettings([str(problem)]) from None
    except psycopg.ProgrammingError as problem:
        raise InvalidSettings([f"DATABASE_URL is not a URL or conninfo: {str(problem).strip()}"]) from None


def operator_session(settings: Settings) -> TimeoutConnection:
    """Log in as the operator, with access to counts of all tenants and to no payload.

    The audit records the session's changes under the name of the command's user.
    """
    logins = logins_of(settings)
    session = service_session(logins, logins.operator, application="turno-cli")
    session.execute("SELECT set_config('turno.actor', %s, false)", [person()])
    return session
