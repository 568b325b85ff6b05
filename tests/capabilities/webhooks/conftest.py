"""A receiver, and rounds that may call it."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.capabilities.webhooks.told import Receiver
from turno.capabilities.webhooks.delivery import webhook_secret
from turno.capabilities.webhooks.rounds import Webhooks, WebhookTerms
from turno.wiring.shared import engine_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.installation import ExampleInstallation


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    Thread(target=made.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.answers.set()
    made.shutdown()
    made.server_close()


@pytest.fixture
def webhooks(world: ExampleInstallation) -> Iterator[Webhooks]:
    engine = engine_of(world.settings)
    terms = WebhookTerms(hosts=("http://127.0.0.1", "http://localhost"))
    yield Webhooks(engine, secret=lambda one: webhook_secret(world.settings, one.slug), terms=terms)
    engine.close()
