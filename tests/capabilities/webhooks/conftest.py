"""A receiver, and rounds that may call it."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.capabilities.webhooks.sent_messages import Receiver
from turno.capabilities.webhooks.delivery import Webhooks
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
def webhooks(example: ExampleInstallation) -> Iterator[Webhooks]:
    engine = engine_of(example.settings)
    yield Webhooks(engine, replace(example.settings, webhook_hosts=("http://127.0.0.1", "http://localhost")))
    engine.close()
