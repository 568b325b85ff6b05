"""Run by PgQueuer's own Python: a default worker that drains the queue at each input line."""

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
    """Install PgQueuer's tables on request, then drain the queue at each input line."""
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
    """Run the waiting jobs in a new worker with PgQueuer's default settings: one that has drained a queue has ended."""
    connection = await asyncpg.connect(dsn=url)
    worker = PgQueuer.from_asyncpg_connection(connection)

    @worker.entrypoint("tally")  # type: ignore[untyped-decorator]  # a peer, in an environment of its own
    async def tally(_: Job) -> None:
        return

    await worker.run(mode=QueueExecutionMode.drain)
    await connection.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
