"""Print an error that a person can act on as one message on standard error, without a traceback; exit status 1."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

ROOMS = ("turno", "cli", "handlers")
CONNECTION_CLASSES = ("08", "28", "3D", "57P")


def explained(error: BaseException) -> str | None:
    """Return an error's message for a person, or None for an error that needs a traceback.

    The errors of our own rooms carry messages written for people; the database's are put into words here.
    """
    if type(error).__module__.partition(".")[0] in ROOMS:
        line = line_of_cause(error)
        return printable(f"{error}\n  see {line}" if line else str(error))
    # Not imported: where the driver was never loaded, none of its errors can have been raised.
    driver = sys.modules.get("psycopg")
    if driver is not None and isinstance(error, driver.Error):
        return printable(_of_postgres(error))
    return None


def line_of_cause(error: BaseException) -> str:
    """Return the last line of the project in the traceback of an error's cause, as `FILE, line N`, or an empty text."""
    if error.__cause__ is None:
        return ""
    project, package = Path.cwd(), Path(__file__).parents[1]
    for frame in reversed(traceback.extract_tb(error.__cause__.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(project) and not file.is_relative_to(package) and "site-packages" not in file.parts:
            return f"{file.relative_to(project)}, line {frame.lineno}"
    return ""


def run_plainly(main: Callable[[], int | None]) -> int:
    """Return the exit status of `main`, 1 after an explained error; an interrupt is 130."""
    try:
        return main() or 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        message = explained(error)
        if message is None:
            raise
        print(message, file=sys.stderr)
        return 1


def _of_postgres(error: "psycopg.Error") -> str:
    from psycopg import OperationalError, errors  # noqa: PLC0415 - loaded already; see `explained`

    text = str(error).strip().partition("\n")[0]
    if "no password supplied" in text:
        return f"{text}; set TURNO_ADMIN_DATABASE_URL to the provisioner's URL, with its password"
    if "permission denied for database" in text:
        role = error.pgconn.user.decode(errors="replace") if error.pgconn else "ROLE"
        return f"{text}; a role that is newer than the installation needs `turno host add {role}`, by the provisioner"
    if isinstance(error, OperationalError) and (error.sqlstate or "08").startswith(CONNECTION_CLASSES):
        return (
            f"cannot reach PostgreSQL{_server_address(error)}: {text}; start it, correct DATABASE_URL, "
            "or run `turno db migrate` if the database is new"
        )
    if isinstance(error, errors.UndefinedTable | errors.UndefinedFunction | errors.InvalidSchemaName):
        return f"the database is not ready: {text}; run `turno db migrate`"
    return f"PostgreSQL refused: {text}{_remedy(error)}"


def _remedy(error: "psycopg.Error") -> str:
    from psycopg import errors  # noqa: PLC0415 - loaded already; see `explained`

    match error:
        case errors.InsufficientPrivilege():
            return "; run it as the provisioner (TURNO_ADMIN_DATABASE_URL) or as a superuser"
        case errors.LockNotAvailable() | errors.QueryCanceled():
            return "; run it again, and if it stays so see which session blocks it: pg_blocking_pids"
        case errors.TooManyConnections():
            return "; wait, or raise max_connections: `turno doctor` counts the sessions"
    return ""


def _server_address(error: "psycopg.Error") -> str:
    server = error.pgconn
    if server is None:
        return ""
    host, port, database = (part.decode(errors="replace") for part in (server.host, server.port, server.db))
    return f" at {host}:{port}/{database}"


def printable(words: str) -> str:
    r"""Return the text with each control or invisible character as an escape such as `\x1b`.

    Operators see texts that tenants' code has stored.
    """
    if words.isprintable():
        return words
    return "".join(
        word if word.isprintable() or word == "\n" else word.encode("unicode_escape").decode() for word in words
    )
