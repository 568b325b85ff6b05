"""Handlers receive their application's services, and its middleware stands around each attempt."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from turno import JobContext, JobHandler, Registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from tests.installation import ExampleInstallation
    from turno.jobs.handler import Middleware


class Post:
    """A service of the application's."""

    def __init__(self, sender: str) -> None:
        self.sender = sender
        self.sent: list[str] = []


RECORDED: list[str] = []


@contextmanager
def reply(job: JobContext) -> Iterator[None]:
    """Record the events of an attempt."""
    RECORDED.append(f"{job.attempt} begins")
    try:
        yield
    except Exception as error:
        RECORDED.append(f"{job.attempt} failed: {error}")
        raise
    RECORDED.append(f"{job.attempt} ended")


@contextmanager
def in_the_table(job: JobContext) -> Iterator[None]:
    """Write before and after, in the job's transaction."""
    for when in ("before", "after"):
        job.connection.execute(
            "INSERT INTO customers (id, company_name, tax_condition, country)"
            " VALUES (%s, 'Faulty', 'registered', 'around')",
            (when,),
        )
        if when == "before":
            RECORDED.append("inner begins")
            yield
            RECORDED.append("inner ended")


@dataclass(frozen=True, slots=True)
class Letter:
    """Whom to write to."""

    to: str


class SendLetter(JobHandler[Letter]):
    """Send with the service that was handed in; the first attempt to Eva fails."""

    type = "send_letter"
    middleware: ClassVar[tuple[Middleware, ...]] = (reply, in_the_table)

    def __init__(self, post: Post, *, greeting: str = "Dear") -> None:
        self.post = post
        self.greeting = greeting

    def before(self, job: JobContext) -> None:
        """Say it."""
        RECORDED.append(f"{job.attempt} before")

    def after(self, job: JobContext) -> None:
        """Say it."""
        RECORDED.append(f"{job.attempt} after")

    def handle(self, job: JobContext, payload: Letter) -> dict[str, Any]:
        if payload.to == "Eva" and job.attempt == 1:
            raise ValueError("Eva is away")
        self.post.sent.append(f"{self.greeting} {payload.to}")
        return {"sender": self.post.sender}


class Silent(SendLetter):
    """The same with a middleware that swallows errors."""

    type = "silent_letter"
    middleware = (lambda _job: suppress(ValueError),)


POST = Post("the shop")


def build_registry() -> Registry:
    return Registry.of([SendLetter.using(POST, greeting="Hello"), Silent.using(POST)])


@pytest.fixture(autouse=True)
def shop(example: ExampleInstallation) -> None:
    RECORDED.clear()
    POST.sent.clear()
    example.rows("DELETE FROM customers WHERE country = 'around'")
    example.registry = f"{__name__}:build_registry"


def send(example: ExampleInstallation, to: str, handler: type[JobHandler[Any]] = SendLetter) -> UUID:
    return example.enqueue({"to": to}, handler=handler)


def around(example: ExampleInstallation) -> list[str]:
    return sorted(row["id"] for row in example.rows("SELECT id FROM customers WHERE country = 'around'"))


def test_a_handler_has_the_services_it_was_listed_with(example: ExampleInstallation) -> None:
    job = example.attempt(send(example, "Ana"))
    assert job["result"] == {"sender": "the shop"}
    assert POST.sent == ["Hello Ana"]


def test_middleware_stands_around_the_attempt_in_its_transaction(example: ExampleInstallation) -> None:
    example.attempt(send(example, "Ana"))
    assert RECORDED == ["1 begins", "inner begins", "1 before", "1 after", "inner ended", "1 ended"]
    assert around(example) == ["after", "before"]


def test_middleware_sees_failure_and_its_writes_roll_back(example: ExampleInstallation) -> None:
    job_id = send(example, "Eva")
    assert example.attempt(job_id)["status"] == "pending"
    assert RECORDED == ["1 begins", "inner begins", "1 before", "1 failed: Eva is away"]
    assert around(example) == []
    assert example.make_due() == 1
    assert example.attempt(job_id)["status"] == "completed"
    assert RECORDED[-1] == "2 ended"
    assert around(example) == ["after", "before"]


def test_an_error_that_middleware_keeps_is_not_taken_for_success(example: ExampleInstallation) -> None:
    job = example.attempt(send(example, "Eva", Silent))
    assert (job["status"], job["attempt"]) == ("failed", 1)
    assert job["error"]["class"] == "HandlerMisuse"


def test_work_inside_a_request_has_services_and_middleware_too(example: ExampleInstallation) -> None:
    assert example.run(SendLetter.using(POST), {"to": "Bea"}) == {"sender": "the shop"}
    assert RECORDED[0] == "1 begins"
    assert RECORDED[-1] == "1 ended"


def test_a_handler_with_services_is_listed_under_its_own_name() -> None:
    listed = SendLetter.using(POST)
    assert (listed.type, listed.__name__, listed.payload_type) == ("send_letter", "SendLetter", Letter)
    with pytest.raises(ValueError, match="have the same type"):
        Registry.of([listed, SendLetter])
