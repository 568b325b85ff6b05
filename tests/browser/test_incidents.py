"""Eleven incidents: the first view names cause, tenants, start and safe command, and its link leads to the evidence."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import psycopg
import pytest
from playwright.sync_api import expect

from tests.situations import SITUATIONS
from turno.maintenance.tasks import beside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

    from tests.site import Site


LEASES = ["sweep", "maintenance", "upkeep"]


class Incident(NamedTuple):
    """The first view's sentence with cause and tenants, a text of the page behind its link, and the safe command."""

    sentence: str
    page: str
    command: str


INCIDENTS = {
    "failures": Incident(
        "import; rm -rf fails in 2 tenants: 4 of 4 in the last hour, mostly TimeoutError: bank did not answer.",
        "suc0002",
        "turno job list --all --type 'import; rm -rf' --error TimeoutError --group-by error",
    ),
    "failed items": Incident(
        "Items of import fail in suc0001: 2 of 3 in the last hour, mostly ValueError: bad row.",
        "Done, 2 failed",
        "turno job list --tenant suc0001 --type import --error ValueError --group-by error",
    ),
    "long wait": Incident("suc0001 waits for its turn with 1 job.", "1 h 0 min", "turno tenant shares"),
    "paused tenant": Incident("suc0001 is paused with 1 job.", "Paused", "turno tenant set suc0001 --resumed"),
    "paused type": Incident(
        "batch_invoicing is paused with 1 job of 1 tenant.", "Paused", "turno type set batch_invoicing --resumed"
    ),
    "lacks worker": Incident(
        "No worker is alive: 1 job of 1 tenant waits for pool.", "Invoicing batch_invoicing", "turno work"
    ),
    "lacks type": Incident(
        "No living worker knows un heard: 1 job of 1 tenant waits for pool."
        " Start a worker of the release that knows it, or cancel the jobs.",
        "Un heard",
        "turno job cancel --all --type 'un heard' --status pending --dry-run",
    ),
    "silent worker": Incident(
        "The worker 7 of away is silent, and its jobs were not taken from it.", "Lost", "turno maintain --once"
    ),
    "no maintenance": Incident(
        "No process runs maintenance by itself: retries and delayed jobs start after the next job only.",
        "No worker is alive",
        "turno maintain",
    ),
    "schedules": Incident(
        "1 schedule of suc0001 left moments out; nightly: 3 moments were missed: no maintenance ran in time.",
        "3 moments were missed",
        "turno schedule list --tenant suc0001",
    ),
    "webhooks": Incident(
        "1 webhook or mail of suc0001 is not delivered: 550 no such user.",
        "550 no such user",
        "turno webhook list --tenant suc0001",
    ),
}


@pytest.fixture(scope="module")
def operator(module_site: Site) -> Iterator[Page]:
    with module_site.visitor("eva", operator=True) as page:
        yield page


@pytest.fixture
def unrepaired(module_site: Site) -> Iterator[ExitStack]:
    """Another process maintains, so that the web repairs no incident before the operator sees it.

    The end of its sessions ends a round of the web that has the lease already.
    """
    example = module_site.example
    example.reset()

    def maintain() -> None:
        # A lease that ends later than its period permits would be taken.
        leases = "INSERT INTO turno.leases SELECT n, 'test', now() + interval '8 s' FROM unnest(%s::text[]) n"
        session.execute(f"{leases} ON CONFLICT (name) DO UPDATE SET holder = 'test', until = excluded.until", [LEASES])

    with psycopg.connect(example.url, autocommit=True) as session, ExitStack() as over:
        maintain()
        over.enter_context(beside(maintain, timedelta(seconds=1)))
        steady = "INSERT INTO turno.leases VALUES ('steady sweeps', 'test', now() + interval '10 minutes')"
        example.rows(f"{steady} ON CONFLICT DO NOTHING")
        example.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'turno-engine'")
        over.callback(example.rows, "UPDATE turno.tenants SET paused_at = NULL")
        yield over


@pytest.mark.parametrize("kind", INCIDENTS)
def test_incident_is_explained_by_one_click(
    module_site: Site, operator: Page, unrepaired: ExitStack, kind: str
) -> None:
    """The first view has cause, tenants, start and command; its link leads to the jobs, the tenants or the workers."""
    incident = INCIDENTS[kind]
    SITUATIONS[kind][0](module_site.example, unrepaired)
    begun = monotonic()
    operator.goto(f"{module_site.url}/admin")
    health = operator.locator("#health")
    expect(health.locator("h1")).to_have_text(incident.sentence)
    expect(health.locator(".since")).to_contain_text("Since")
    expect(health.locator(".type code")).to_have_text(incident.command)
    expect(health.locator("#others")).to_have_count(0)
    with operator.expect_navigation():
        health.locator(".since a").click()
    expect(operator.locator("main")).to_contain_text(incident.page)
    print(f"{kind}: {monotonic() - begun:.2f} s, 1 click, {incident.command}")  # noqa: T201 - the figures of this script
