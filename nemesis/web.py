"""The web of a run, `python -m nemesis.web`: `turno serve` with the handlers of the run and lost hints."""

from __future__ import annotations

import os
import sys
from random import Random
from typing import TYPE_CHECKING
from unittest.mock import patch

from nemesis.environment import FOLDER, MARK
from nemesis.hints import LossyQueue
from turno.commands.failures import run_plainly
from turno.environment import WEB_NEEDS, read_settings, seal
from turno.http_server.web_server import WebServer
from turno.wiring.shared import exec_queue, queue_named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turno.http_server.web_server import Served
    from turno.queues.interface import QueueInterface
    from turno.settings import Settings


def application(settings: Settings) -> Served:
    """Return the application, whose hints are lost now and then."""
    from turno.wiring import web  # noqa: PLC0415 - the parent imports no flask

    patch.object(web, "queue_named", lossy).start()
    return web.serving_application(settings)


def lossy(name: str, settings: Settings, environment: Mapping[str, str] | None = None) -> QueueInterface:
    """Return a queue that loses hints and marks its workers as processes of the run; the web has no mark."""
    marked = {**os.environ, "QUEUE_BACKEND": "exec", MARK: os.environ[FOLDER]}
    queue = exec_queue(settings, marked) if name == "exec" else queue_named(name, settings, environment)
    return LossyQueue(queue, Random())  # noqa: S311 - random, like the victims of faults


def main() -> None:
    """Serve until SIGTERM."""
    seal(*WEB_NEEDS)
    WebServer(read_settings(), application).run()


if __name__ == "__main__":
    sys.exit(run_plainly(main))
