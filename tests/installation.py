"""The kit's installation with the example's orders in it, and the handlers that misbehave at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest

from cli.servers.embedded_postgres import Cluster
from handlers.batch_invoicing import BatchInvoicing
from tenants.northwind.load import BRANCH_SHARES, load_orders
from tests.cloned_database import cloned_database
from turno.jobs.handler import JobHandler
from turno.jobs.new_job import NewJob
from turno.tenancy.identity.tenant import Tenant
from turno.testing import build
from turno.testing import installation as kit
from turno.testing.installation import KEY
from turno.wiring.shared import ROOT

if TYPE_CHECKING:
    from cli.demo.web import DemoWeb
    from turno.client import Client

__all__ = ["KEY", "LOOK_ALIKE", "NORTHWIND", "ROOT", "ExampleInstallation", "build_example"]

LOOK_ALIKE = {"suc0001": range(40), "suc0002": range(40)}
NORTHWIND = {f"suc000{n}": share for n, share in enumerate(BRANCH_SHARES, 1)}
EXAMPLES = {"example": LOOK_ALIKE, "northwind": NORTHWIND}
HANDLERS = "handlers:build_registry"
WEB_APP = "app:create_app"
TABLES = ROOT / "migrations"
FAULTY = "tests.misbehaving_handlers:REGISTRY"


@dataclass
class ExampleInstallation(kit.Installation):
    """An installation with branches; a job is a batch of invoices by default."""

    registry: str = HANDLERS

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that belongs to this example: its web is the example's."""
        return super().environment | {"TURNO_WEB_APP": WEB_APP}

    @property
    def faulty(self) -> bool:
        """Whether its workers know the handlers of the tests."""
        return self.registry == FAULTY

    @faulty.setter
    def faulty(self, wanted: bool) -> None:
        self.registry = FAULTY if wanted else HANDLERS

    def enqueue(
        self,
        payload: Mapping[str, Any],
        *,
        handler: type[JobHandler[Any]] = BatchInvoicing,
        tenant: Tenant | None = None,
        **options: Any,
    ) -> UUID:
        return super().enqueue(payload, handler=handler, tenant=tenant, **options)

    def new_job(
        self, payload: Mapping[str, Any], *, handler: type[JobHandler[Any]] = BatchInvoicing, **options: Any
    ) -> NewJob:
        return super().new_job(payload, handler=handler, **options)

    def client(self, web: DemoWeb, *, user: str = "ana", tenant: str = "suc0001") -> Client:
        """Return a client of the web that sends each request once."""
        from turno.client import Client  # noqa: PLC0415 - only tests of the web need it, and the encryption of tokens
        from turno.commands.token import development_token  # noqa: PLC0415

        token = development_token(self.settings, user=user, tenants=[tenant])
        return Client(web.url, tenant=tenant, token=token, timeout=60, patience=0)

    def order_ids(self, tenant: Tenant | None = None) -> list[int]:
        return [row["id"] for row in self.rows("SELECT id FROM orders ORDER BY id", tenant=tenant)]


@contextmanager
def build_example(
    url: str, folder: Path, shares: Mapping[str, range], *, filled: bool = False
) -> Iterator[ExampleInstallation]:
    """Install, add a tenant for each share of the Northwind orders, and load them unless they are `filled` already."""
    fill = {slug: _nothing if filled else partial(load_orders, share=share) for slug, share in shares.items()}
    with build.build_installation(url, folder, fill, ExampleInstallation, TABLES) as example:
        yield example


def _nothing(_session: psycopg.Connection[Any]) -> None:
    pass


@contextmanager
def clone_example(cluster: Cluster, folder: Path, name: str) -> Iterator[ExampleInstallation]:
    """Clone an example, which takes a third of the time of building another."""

    def build(url: str) -> AbstractContextManager[ExampleInstallation]:
        return build_example(url, folder, EXAMPLES[name])

    with (
        cloned_database(cluster, name, build) as url,
        build_example(url, folder, EXAMPLES[name], filled=True) as example,
    ):
        yield example


@pytest.fixture(scope="module")
def module_example(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleInstallation]:
    """An example of two look-alike tenants for the tests of one module."""
    with clone_example(cluster, tmp_path_factory.mktemp("example"), "example") as example:
        yield example


@pytest.fixture
def example(module_example: ExampleInstallation) -> ExampleInstallation:
    """The module's example, with nothing left of the test before."""
    module_example.renew(HANDLERS)
    return module_example


@pytest.fixture(scope="module")
def module_northwind(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleInstallation]:
    """All 830 orders over three tenants, for the tests of one module."""
    with clone_example(cluster, tmp_path_factory.mktemp("northwind"), "northwind") as example:
        yield example


@pytest.fixture
def northwind(module_northwind: ExampleInstallation) -> ExampleInstallation:
    """All 830 orders, none invoiced yet."""
    module_northwind.reset()
    return module_northwind
