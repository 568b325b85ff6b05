"""The web application over an example, in the test's own process."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from app import PAGES
from handlers import build_registry
from tests.fakes import RecordingQueue
from turno.capabilities.streams.hub import Hub
from turno.dispatch.dispatcher import Dispatcher
from turno.tenancy.identity.directory import Directory
from turno.web import create_app
from turno.web.services import Services
from turno.wiring.web import live_changes, operator_pool, web_pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flask import Flask

    from tests.installation import ExampleInstallation
    from turno.jobs.handler import Registry


@contextmanager
def web_of(example: ExampleInstallation, registry: Registry | None = None) -> Iterator[Flask]:
    """The web application over this installation; it offers its jobs to no worker."""
    live = live_changes(example.settings)
    with web_pool(example.settings) as pool, operator_pool(example.settings) as operators:
        services = Services(
            settings=example.settings,
            registry=registry or build_registry(),
            dispatcher=Dispatcher(
                connection=pool.connection, queue=RecordingQueue(), pending_limit=9, announce=live.announce
            ),
            directory=Directory(pool.connection),
            connection=pool.connection,
            operator=operators.connection,
            live=live,
        )
        yield create_app(services, PAGES)
    if isinstance(live, Hub):
        live.stop()
