"""The kit's installation with the example's orders in it, and the handlers that misbehave at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from handlers.batch_invoicing import BatchInvoicing
from tenants.northwind.load import BRANCH_SHARES, load_orders
from turno.jobs.handler import JobHandler
from turno.store.api.commands import NewJob
from turno.tenancy.identity.tenant import Tenant
from turno.testing import build
from turno.testing import installation as kit
from turno.testing.installation import KEY
from turno.wiring.shared import ROOT

__all__ = ["KEY", "LOOK_ALIKE", "NORTHWIND", "ROOT", "ExampleInstallation", "build_world"]

LOOK_ALIKE = {"suc0001": range(40), "suc0002": range(40)}
NORTHWIND = {f"suc000{n}": share for n, share in enumerate(BRANCH_SHARES, 1)}
HANDLERS = "handlers:build_registry"
WEB_APP = "app:create_app"
TABLES = ROOT / "migrations"
ODD = "tests.misbehaving_handlers:REGISTRY"


@dataclass
class ExampleInstallation(kit.Installation):
    """A world of branches; a job is a batch of invoices unless said otherwise."""

    registry: str = HANDLERS

    @property
    def environment(self) -> dict[str, str]:
        """The variables of a process that belongs to this world: its web is the example's."""
        return super().environment | {"WEB_APP": WEB_APP}

    @property
    def odd(self) -> bool:
        """Whether its workers know the handlers of the tests."""
        return self.registry == ODD

    @odd.setter
    def odd(self, wanted: bool) -> None:
        self.registry = ODD if wanted else HANDLERS

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

    def order_ids(self, tenant: Tenant | None = None) -> list[int]:
        return [row["id"] for row in self.rows("SELECT id FROM orders ORDER BY id", tenant=tenant)]


@contextmanager
def build_world(url: str, folder: Path, shares: Mapping[str, range]) -> Iterator[ExampleInstallation]:
    """Install, add a tenant for each share of the Northwind orders, and load them."""
    fill = {slug: partial(load_orders, share=share) for slug, share in shares.items()}
    with build.build_installation(url, folder, fill, ExampleInstallation, TABLES) as world:
        yield world


@pytest.fixture(scope="module")
def module_world(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleInstallation]:
    """A world of two look-alike tenants for the tests of one module."""
    with build_world(module_database, tmp_path_factory.mktemp("world"), LOOK_ALIKE) as world:
        yield world


@pytest.fixture
def world(module_world: ExampleInstallation) -> ExampleInstallation:
    """The module's world, with nothing left of the test before."""
    module_world.renew(HANDLERS)
    return module_world


@pytest.fixture(scope="module")
def module_northwind(module_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ExampleInstallation]:
    """All 830 orders over three tenants, for the tests of one module."""
    with build_world(module_database, tmp_path_factory.mktemp("northwind"), NORTHWIND) as world:
        yield world


@pytest.fixture
def northwind(module_northwind: ExampleInstallation) -> ExampleInstallation:
    """All 830 orders, none invoiced yet."""
    module_northwind.forget()
    return module_northwind
