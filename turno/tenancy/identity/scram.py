"""Password verifiers, computed here: the server never sees a password, nor does its log."""

from typing import Any

from psycopg import Connection

SCRAM_ITERATIONS_SINCE = 160000


def scram_verifier(admin: Connection[Any], role: str, password: str) -> str:
    """Return the stored form of the role's password in PostgreSQL. Inside a transaction.

    One iteration, because the password is a 256-bit HMAC, which cannot be guessed at any speed,
    and every login saves the client 4,096 rounds (docs/decisions/0001-one-scram-iteration.md).
    """
    if admin.info.server_version >= SCRAM_ITERATIONS_SINCE:
        admin.execute("SELECT set_config('scram_iterations', '1', true)")
    return admin.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256").decode()
