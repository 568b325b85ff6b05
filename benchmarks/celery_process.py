"""Run by Celery's own Python: `put N` publishes N jobs, `work NAME` runs a worker with two processes."""

from __future__ import annotations

import os
import sys

from celery import Celery

app = Celery("peer", broker=os.environ["PEER_BROKER"], backend=os.environ["PEER_RESULTS"])
app.conf.update(
    task_default_queue="peer_celery",
    broker_transport_options={"confirm_publish": True},
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=64,
)


@app.task(name="idle")  # type: ignore[untyped-decorator]  # a peer, in an environment of its own
def idle() -> None:
    """Leave a byte behind."""
    with open(os.environ["PEER_DONE"], "ab", buffering=0) as done:  # noqa: PTH123 - as little as can be
        done.write(b".")


def main(what: str, about: str) -> None:
    """Publish, or work until SIGTERM."""
    if what == "put":
        with app.connection_for_write() as connection:
            producer = app.amqp.Producer(connection)
            for _ in range(int(about)):
                idle.apply_async(producer=producer)
        return
    app.worker_main(["worker", "-c", "2", "-n", f"{about}@peer", "-l", "ERROR", "--without-gossip", "--without-mingle"])


if __name__ == "__main__":
    main(*sys.argv[1:])
