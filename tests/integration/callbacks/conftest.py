"""A receiver, and rounds that may call it."""

from __future__ import annotations

from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.integration.callbacks.told import Receiver
from turno.callbacks.rounds import Callbacks, CallbackTerms
from turno.wiring.callbacks import callback_secret
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
def callbacks(world: ExampleInstallation) -> Iterator[Callbacks]:
    engine = engine_of(world.settings)
    terms = CallbackTerms(hosts=("127.0.0.1", "localhost"), private=True)
    yield Callbacks(engine, secret=lambda one: callback_secret(world.settings, one.slug), terms=terms)
    engine.close()
