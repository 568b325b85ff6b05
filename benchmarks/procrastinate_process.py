"""Run by Procrastinate's own Python: a worker with ten concurrent jobs that drains at each input line, or stays."""

from __future__ import annotations

import asyncio
import logging
import sys

import procrastinate

app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=sys.argv[1]))


@app.task(name="tally")  # type: ignore[untyped-decorator]  # a peer, in an environment of its own
async def tally(number: int) -> dict[str, int]:
    """Say the number again."""
    return {"number": number}


async def main() -> None:
    """Apply the schema or stay on request, otherwise drain the queue at each input line."""
    logging.disable(logging.WARNING)
    async with app.open_async():
        if sys.argv[2:] == ["install"]:
            await app.schema_manager.apply_schema_async()
            return
        print("ready", flush=True)
        if sys.argv[2:] == ["stay"]:
            await app.run_worker_async(concurrency=10)
        while await asyncio.to_thread(sys.stdin.readline):
            await app.run_worker_async(wait=False, concurrency=10, install_signal_handlers=False)
            print("empty", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
