"""Run by PgQueuer's own Python: one worker as it is by default, that drains the queue whenever a line says go."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import TYPE_CHECKING

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

if TYPE_CHECKING:
    from pgqueuer.models import Job


async def main(url: str, *install: str) -> None:
    """Install PgQueuer's tables if asked to, then drain whenever a line comes."""
    logging.disable(logging.WARNING)
    if install:
        connection = await asyncpg.connect(dsn=url)
        await Queries.from_asyncpg_connection(connection).install()
        await connection.close()
        return
    print("ready", flush=True)
    while await asyncio.to_thread(sys.stdin.readline):
        await drain(url)
        print("empty", flush=True)


async def drain(url: str) -> None:
    """Run what waits, with PgQueuer's own settings, as a new worker: one that has drained a queue has ended."""
    connection = await asyncpg.connect(dsn=url)
    worker = PgQueuer.from_asyncpg_connection(connection)

    @worker.entrypoint("tally")  # type: ignore[untyped-decorator]  # a peer, in an environment of its own
    async def tally(_: Job) -> None:
        return

    await worker.run(mode=QueueExecutionMode.drain)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
