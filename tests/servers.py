"""The real servers that tests run against beside PostgreSQL; each is private to one test process and ends with it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from cli.private_rabbitmq import Node
from cli.system_packages import CHROMIUM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

CHROMIUM_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A RabbitMQ node for this test process."""
    with Node(folder=tmp_path_factory.mktemp("rabbitmq")) as node:
        yield node
    shutil.rmtree(node.folder)


# Not for the whole session: while Playwright is open, asyncio.run() is refused everywhere in the process.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A headless Chromium, new for each module; open a new context or page for each test."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - half a second that only browser tests should pay

    program = CHROMIUM.find()
    if program is None:
        pytest.fail("Chromium is not installed: install chromium, or let `turno test` do it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(CHROMIUM_ARGUMENTS))
        yield browser
        browser.close()
