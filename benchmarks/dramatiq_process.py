"""Run by Dramatiq's own Python: `put N` publishes N jobs, `work NAME` runs a worker with two threads."""

from __future__ import annotations

import os
import signal
import sys

import dramatiq
from dramatiq.brokers.rabbitmq import RabbitmqBroker

broker = RabbitmqBroker(url=os.environ["PEER_BROKER"], confirm_delivery=True)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="peer_dramatiq")  # type: ignore[untyped-decorator]  # a peer, in its own environment
def idle() -> None:
    """Leave a byte behind."""
    with open(os.environ["PEER_DONE"], "ab", buffering=0) as done:  # noqa: PTH123 - as little as can be
        done.write(b".")


def main(what: str, about: str) -> None:
    """Publish, or work until SIGTERM."""
    if what == "put":
        for _ in range(int(about)):
            idle.send()
        return
    worker = dramatiq.Worker(broker, worker_threads=2)
    worker.start()
    signal.sigwait({signal.SIGTERM})
    worker.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
