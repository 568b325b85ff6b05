"""A running site over the Northwind orders, and its users in a real browser."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql

from cli.demo.web import DemoWeb
from cli.servers.free_port import free_port
from turno.commands.token import development_token
from turno.testing.wait import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext, Page

    from tests.installation import ExampleInstallation

PATIENCE_MS = 30_000


@dataclass
class Site:
    """The web as a separate process, with workers that it launches."""

    example: ExampleInstallation
    web: DemoWeb
    browser: Browser

    @property
    def url(self) -> str:
        return self.web.url

    def token(self, user: str, *tenants: str, operator: bool = False) -> str:
        return development_token(
            self.example.settings, user=user, tenants=tenants, role="operator" if operator else None
        )

    @contextmanager
    def visitor(self, user: str, *tenants: str, operator: bool = False, **browser: Any) -> Iterator[Page]:
        """Give the first page to a signed-in user in a separate browser profile."""
        with self.browser.new_context(**{"locale": "en-US", "reduced_motion": "reduce"} | browser) as context:
            page = self.opened(context)
            page.goto(self.url)
            page.fill("#token", self.token(user, *tenants, operator=operator))
            page.locator('form[action="/sign-in"] button').click()
            page.locator('form[action="/sign-out"]').wait_for()
            page.wait_for_load_state()
            yield page

    def opened(self, context: BrowserContext) -> Page:
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.set_default_navigation_timeout(PATIENCE_MS)
        return page

    @contextmanager
    def holding(self, order: int, *, tenant: str = "suc0001") -> Iterator[None]:
        """Lock this order: its batch stops at it."""
        with psycopg.connect(self.example.url) as connection:
            schema = sql.Identifier(self.example.tenants[tenant].schema)
            connection.execute(sql.SQL("SELECT FROM {}.orders WHERE id = %s FOR UPDATE").format(schema), [order])
            yield
            connection.rollback()

    def settle(self) -> None:
        """Cancel the jobs that a test has left open, and wait until the workers have released them and ended.

        A remaining worker would run the waiting jobs of the next test.
        """

        def none_open() -> bool:
            for tenant in self.example.tenants.values():
                cancel = "SELECT job_cancel(id, NULL, 'the test is over') FROM background_jobs"
                self.example.rows(f"{cancel} WHERE status IN ('pending', 'running')", tenant=tenant)
            tickets = self.example.rows("SELECT job_id FROM turno.tickets")
            workers = self.example.rows("SELECT id FROM turno.workers WHERE alive_at > now() - interval '15 s'")
            return not tickets and not workers

        assert wait_until(none_open, within=30)


@contextmanager
def site_of(example: ExampleInstallation, browser: Browser, log: Path) -> Iterator[Site]:
    """Start the web for this example; it ends with the block."""
    port = free_port()
    example.extra |= {"TURNO_WEB_BIND": f"127.0.0.1:{port}", "TURNO_SHUTDOWN_GRACE_SECONDS": "1"}
    web = DemoWeb(port=port, environment=example.environment, log=log)
    web.start()
    yield Site(example, web, browser)
    web.stop()


@pytest.fixture(scope="module")
def module_site(
    module_northwind: ExampleInstallation, chromium: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A site for the tests of one module."""
    with site_of(module_northwind, chromium, tmp_path_factory.mktemp("site") / "web.log") as made:
        yield made


@pytest.fixture
def site(module_site: Site) -> Site:
    """The module's site, with nothing left of the test before."""
    if not module_site.web.running:
        module_site.web.start()
    module_site.settle()
    module_site.example.reset()
    return module_site
