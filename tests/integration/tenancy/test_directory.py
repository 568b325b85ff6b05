import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from tests.installation import ExampleInstallation
from turno.tenancy.identity.directory import Directory, UnknownTenant
from turno.tenancy.provisioning.provision import revoke_tokens


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Lender:
    """Lends one connection and counts how often."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.lent = 0

    @contextmanager
    def __call__(self) -> Iterator[psycopg.Connection[Any]]:
        self.lent += 1
        yield self.connection


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lender(module_example: ExampleInstallation) -> Lender:
    return Lender(module_example.web)


@pytest.fixture
def directory(lender: Lender, clock: Clock) -> Directory:
    return Directory(lender, ttl=2.0, clock=clock)


def test_a_tenant_is_found_by_its_slug(module_example: ExampleInstallation, directory: Directory) -> None:
    assert directory.find("suc0001") == module_example.one
    assert directory.list_active() == [module_example.one, module_example.other]


def test_unknown_tenant_is_an_error_and_never_cached(
    module_example: ExampleInstallation, directory: Directory, lender: Lender
) -> None:
    for _ in range(2):
        with pytest.raises(UnknownTenant, match="nobody"):
            directory.find("nobody")
    assert lender.lent == 2
    assert directory.find("suc0002") == module_example.other


@pytest.mark.parametrize(
    "slug", ["", "SUC0001", "suc0001 ", "suc0001\n", "t_000000000000; DROP", "' OR true --", "x" * 10_000, "%", "\x00"]
)
def test_invalid_slug_is_not_looked_up(directory: Directory, lender: Lender, slug: str) -> None:
    with pytest.raises(UnknownTenant):
        directory.find(slug)
    assert lender.lent == 0


def test_a_schema_is_no_slug(module_example: ExampleInstallation, directory: Directory) -> None:
    with pytest.raises(UnknownTenant):
        directory.find(module_example.one.schema)


def test_an_answer_is_believed_for_a_while(directory: Directory, lender: Lender, clock: Clock) -> None:
    directory.find("suc0001")
    clock.now = 1.9
    directory.find("suc0001")
    assert lender.lent == 1
    clock.now = 2.0
    directory.find("suc0001")
    assert lender.lent == 2


def test_a_tenant_that_is_no_longer_active_is_lost_after_that(
    module_example: ExampleInstallation, directory: Directory, clock: Clock
) -> None:
    directory.find("suc0001")
    module_example.admin.execute("UPDATE turno.tenants SET state = 'provisioning' WHERE slug = 'suc0001'")
    try:
        assert directory.find("suc0001")
        clock.now = 2.0
        for _ in range(2):
            with pytest.raises(UnknownTenant):
                directory.find("suc0001")
        assert directory.list_active() == [module_example.other]
    finally:
        module_example.admin.execute("UPDATE turno.tenants SET state = 'active'")
    assert directory.find("suc0001") == module_example.one


def test_revoked_tokens_come_with_the_tenant(
    module_example: ExampleInstallation, directory: Directory, clock: Clock
) -> None:
    assert directory.find("suc0001").tokens_valid_from == float("-inf")
    revoke_tokens(module_example.admin, "suc0001")
    clock.now = 2.0
    assert directory.find("suc0001").tokens_valid_from > 1_500_000_000
    assert directory.find("suc0002").tokens_valid_from == float("-inf")


def test_many_threads_ask_at_once(module_example: ExampleInstallation) -> None:
    directory = Directory(lambda: psycopg.connect(module_example.url, autocommit=True), ttl=0.0)
    result: list[int] = []

    def ask() -> None:
        result.extend(directory.find("suc0002").id for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == [module_example.other.id] * 80
