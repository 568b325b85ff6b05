"""Run by PgQueuer's own Python: read how many jobs to enqueue, answer with the milliseconds of each."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib.metadata import version

import asyncpg
from pgqueuer.queries import Queries


async def main(url: str) -> None:
    """Install PgQueuer's tables and enqueue whenever a line asks for it, until the input ends."""
    connection = await asyncpg.connect(dsn=url)
    queries = Queries.from_asyncpg_connection(connection)
    await queries.install()
    print(json.dumps(version("pgqueuer")), flush=True)
    for line in sys.stdin:
        print(json.dumps([await _enqueue(queries) for _ in range(int(line))]), flush=True)
    await connection.close()


async def _enqueue(queries: Queries) -> float:
    start = time.perf_counter()
    await queries.enqueue("job", b'{"order_ids": [10248, 10249, 10250], "point_of_sale": 1}')
    return (time.perf_counter() - start) * 1000


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
