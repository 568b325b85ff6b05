"""Run by PgQueuer's own Python: `URL [BELL [work]]`.

Reads how many jobs to enqueue and answers with the milliseconds of each: of its enqueueing, or, with a bell, until its
first line. `20 beside` also measures a transaction with a business row; `20 together` one call for them all.
With `work` it is the worker, and rings that bell.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

import asyncpg
from pgqueuer import PgQueuer
from pgqueuer.queries import Queries

if TYPE_CHECKING:
    from pgqueuer.models import Job

PAYLOAD = b'{"order_ids": [10248, 10249, 10250], "point_of_sale": 1}'


async def main(url: str, bell: str = "", role: str = "") -> None:
    """Work until ended; or install PgQueuer's tables and enqueue at each input line, until the end of the input."""
    connection = await asyncpg.connect(dsn=url)
    if role == "work":
        await work(connection, bell)
        return
    queries = Queries.from_asyncpg_connection(connection)
    await queries.install()
    await connection.execute("CREATE TABLE sales (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY)")
    print(json.dumps(version("pgqueuer")), flush=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rings:
        if bell:
            rings.bind(bell)
            rings.settimeout(60)
        for line in sys.stdin:
            times, *how = line.split()
            if how == ["together"]:
                took = [await _enqueue_together(queries, int(times))]
            elif how == ["beside"]:
                took = [await _enqueue_beside(connection, queries) for _ in range(int(times))]
            else:
                took = [
                    await _pick_up(connection, queries, rings) if bell else await _enqueue(queries)
                    for _ in range(int(times))
                ]
            print(json.dumps(took), flush=True)
    await connection.close()


async def work(connection: asyncpg.Connection, bell: str) -> None:
    """Ring at each job's first line, with PgQueuer's own settings."""
    worker = PgQueuer.from_asyncpg_connection(connection)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as rope:

        @worker.entrypoint("job")  # type: ignore[untyped-decorator]  # a peer, in an environment of its own
        async def job(_: Job) -> None:
            rope.sendto(str(time.monotonic_ns()).encode(), bell)

        await worker.run()


async def _enqueue(queries: Queries) -> float:
    start = time.perf_counter()
    await queries.enqueue("job", PAYLOAD)
    return (time.perf_counter() - start) * 1000


async def _enqueue_together(queries: Queries, times: int) -> float:
    start = time.perf_counter()
    await queries.enqueue(["job"] * times, [PAYLOAD] * times, [0] * times)
    return (time.perf_counter() - start) * 1000


async def _enqueue_beside(connection: asyncpg.Connection, queries: Queries) -> float:
    start = time.perf_counter()
    async with connection.transaction():
        await connection.execute("INSERT INTO sales DEFAULT VALUES")
        await queries.enqueue("job", PAYLOAD)
    return (time.perf_counter() - start) * 1000


async def _pick_up(connection: asyncpg.Connection, queries: Queries, rings: socket.socket) -> float:
    start = time.monotonic_ns()
    await queries.enqueue("job", PAYLOAD)
    took = (int(rings.recv(1024)) - start) / 1e6
    while await connection.fetchval("SELECT EXISTS (SELECT FROM pgqueuer)"):
        time.sleep(0.002)  # noqa: ASYNC251 - no other task waits here
    return took


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
