"""Password verifiers, computed here: the server never sees a password, nor does its log."""

from typing import Any

from psycopg import Connection

SCRAM_ITERATIONS_SINCE = 160000


def scram_verifier(admin: Connection[Any], role: str, password: str) -> str:
    """Return what PostgreSQL stores in place of the role's password. Inside a transaction.

    One iteration, because the password is a 256-bit HMAC: nobody guesses it however fast the guessing,
    and every login saves the client 4,096 rounds (docs/decisions/0001-one-scram-iteration.md).
    """
    if admin.info.server_version >= SCRAM_ITERATIONS_SINCE:
        admin.execute("SELECT set_config('scram_iterations', '1', true)")
    return admin.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
