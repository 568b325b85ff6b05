"""SQLAlchemy sessions on a job's connection: their work is the job's, kept and undone with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from turno import JobContext, JobHandler
from turno.orm import async_orm_session, orm_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

    from tests.installation import ExampleInstallation


class Base(DeclarativeBase):
    """The tables of the tests."""


class Customer(Base):
    """A customer of the example."""

    __tablename__ = "customers"
    id: Mapped[str] = mapped_column(primary_key=True)
    company_name: Mapped[str]
    tax_condition: Mapped[str] = mapped_column(default="registered")
    country: Mapped[str] = mapped_column(default="orm")


@dataclass(frozen=True, slots=True)
class Deed:
    """The deed's name."""

    name: str


def add(session: Session, name: str) -> None:
    session.add(Customer(id=name, company_name=name))


def fail_after(session: Session) -> None:
    add(session, "Ana")
    session.flush()
    raise ValueError("not today")


def keep_first(session: Session) -> None:
    add(session, "Ana")
    session.commit()
    add(session, "Bea")
    session.flush()
    session.rollback()


def nest(session: Session) -> None:
    add(session, "Ana")
    nested = session.begin_nested()
    add(session, "Bea")
    session.flush()
    nested.rollback()


def commit_underneath(session: Session) -> None:
    add(session, "Ana")
    session.flush()
    session.connection().connection.commit()


DEEDS: dict[str, Callable[[Session], None]] = {
    "add": lambda session: add(session, "Ana"),
    "fail": fail_after,
    "keep one of two": keep_first,
    "nest": nest,
    "commit underneath": commit_underneath,
}


class RunDeed(JobHandler[Deed]):
    """Run a deed by the ORM, and return the visible rows of the tenant."""

    type = "run_deed"

    def handle(self, job: JobContext, payload: Deed) -> dict[str, Any]:
        with orm_session(job) as session:
            DEEDS[payload.name](session)
        with orm_session(job) as session:
            seen = session.scalars(select(Customer.id).where(Customer.country == "orm").order_by(Customer.id)).all()
            schema = session.execute(text("SELECT current_schema()")).scalar_one()
        return {"seen": [*seen], "schema": schema}


class AwaitDeed(JobHandler[Deed]):
    """Run a deed by an asynchronous session, and return the visible rows of the tenant."""

    type = "await_deed"

    async def handle(self, job: JobContext, payload: Deed) -> dict[str, Any]:
        async with async_orm_session(job) as session:
            await session.run_sync(DEEDS[payload.name])
        async with async_orm_session(job) as session:
            seen = await session.scalars(select(Customer.id).where(Customer.country == "orm").order_by(Customer.id))
            schema = (await session.execute(text("SELECT current_schema()"))).scalar_one()
        return {"seen": [*seen], "schema": schema}


HANDLERS = [RunDeed, AwaitDeed]
KINDS = pytest.mark.parametrize("kind", HANDLERS)


@pytest.fixture(autouse=True)
def mapped(example: ExampleInstallation) -> None:
    for tenant in (example.one, example.other):
        example.rows("DELETE FROM customers WHERE country = 'orm'", tenant=tenant)
    example.registry = f"{__name__}:HANDLERS"


def done(example: ExampleInstallation, kind: type[JobHandler[Deed]], name: str, **options: Any) -> dict[str, Any]:
    return example.attempt(example.enqueue({"name": name}, handler=kind, **options))


def kept(example: ExampleInstallation) -> list[str]:
    return [row["id"] for row in example.rows("SELECT id FROM customers WHERE country = 'orm' ORDER BY id")]


@KINDS
def test_orm_rows_are_committed_with_the_job_in_its_tenant(
    example: ExampleInstallation, kind: type[JobHandler[Deed]]
) -> None:
    job = done(example, kind, "add", tenant=example.other)
    assert job["result"] == {"seen": ["Ana"], "schema": example.other.schema}
    assert kept(example) == []


@pytest.mark.parametrize(("name", "left"), [("add", ["Ana"]), ("keep one of two", ["Ana"]), ("nest", ["Ana"])])
@KINDS
def test_commit_and_rollback_of_a_session_are_savepoints(
    example: ExampleInstallation, kind: type[JobHandler[Deed]], name: str, left: list[str]
) -> None:
    job = done(example, kind, name)
    assert (job["status"], job["result"]["seen"], kept(example)) == ("completed", left, left)


@KINDS
def test_error_rolls_back_the_orm_session(example: ExampleInstallation, kind: type[JobHandler[Deed]]) -> None:
    job = done(example, kind, "fail")
    assert (job["status"], kept(example)) == ("pending", [])


@KINDS
def test_the_connection_beneath_cannot_be_committed(example: ExampleInstallation, kind: type[JobHandler[Deed]]) -> None:
    job = done(example, kind, "commit underneath")
    assert (job["status"], job["error"]["class"], kept(example)) == ("failed", "HandlerMisuse", [])
