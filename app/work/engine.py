"""The supervisor's own connection: thrown away when broken, opened again with patience."""

from collections.abc import Callable
from time import monotonic
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")
Connection = psycopg.Connection[Any]
RETRY = 1.0  # seconds between two tries to reach a database that is away


def next_try(chance: Callable[[], float]) -> float:
    """Return when to try again to reach a database that is away, by the monotonic clock."""
    return monotonic() + RETRY * (0.8 + 0.4 * chance())


class EngineLink:
    """Runs one statement after another as the engine, on whatever connection is sound."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._connection: Connection | None = None

    def run(self, operation: Callable[..., T], *parameters: Any, **options: Any) -> T:
        """Call `operation(connection, …)`; on a broken connection once more on a new one.

        Only for operations that may run twice. Raises psycopg.OperationalError while the database is away.
        """
        for last in (False, True):
            if self._connection is None or self._connection.closed:
                self._connection = self._connect()
            try:
                return operation(self._connection, *parameters, **options)
            except psycopg.OperationalError:
                if last or not self._connection.broken:
                    raise
        raise AssertionError("the second try returns or raises")

    def forget(self) -> None:
        """In a forked child: drop the parent's connection without a word to the server."""
        # Closing it here would end the parent's session; keeping a reference keeps it from being collected.
        _inherited.append(self._connection)
        self._connection = None

    def close(self) -> None:
        """End the session."""
        if self._connection is not None:
            self._connection.close()


_inherited: list[Connection | None] = []
