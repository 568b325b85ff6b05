"""The visible text of an error: users see the text written for them, else a reference; operators see everything."""

from __future__ import annotations

import builtins
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg
import pytest
from click.testing import CliRunner

from tests.web_in_process import web_of
from turno.capabilities.effects.once import EffectInDoubt
from turno.commands.main import main
from turno.commands.token import development_token
from turno.errors import HandlerMisuse, InvalidPayload, PermanentFailure, UserError
from turno.jobs.handler import JobHandler, Registry
from turno.jobs.job_context import JobContext
from turno.jobs.outcome import RetryPolicy
from turno.jobs.redaction import LEFT_OUT
from turno.testing.in_process_worker import InProcessWorker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from uuid import UUID

    from flask.testing import FlaskClient

    from tests.installation import ExampleInstallation

SECRET = "secret-5b1f"


class ShopClosed(Exception):
    """The service's own: its words are for clerks."""


@dataclass(frozen=True, slots=True)
class ClumsyPayload:
    """The error to raise, in the job or in each of its items."""

    raises: str
    items: int = 0


def of_the_database(job: JobContext) -> None:
    job.connection.execute("SELECT %s::integer", (SECRET,))


def outside(job: JobContext) -> None:
    def call(_effect: object) -> None:
        raise ConnectionError(SECRET)

    job.once(f"effect of {job.job_id}", call)


def wrong(error: Exception) -> Any:
    def deed(_job: JobContext) -> None:
        raise error

    return deed


DEEDS = {
    "bug": wrong(KeyError(SECRET)),
    "value": wrong(ValueError(SECRET)),
    "closed": wrong(ShopClosed("The shop is closed: try again tomorrow.")),
    "user": wrong(UserError("The customer has no tax number: enter it first.")),
    "permanent": wrong(PermanentFailure("The period is closed.")),
    "credentials": wrong(ValueError(f"refused: https://eva:{SECRET}@shop.example, Bearer {SECRET}-0123456789abcdef")),
    "misuse": wrong(HandlerMisuse(SECRET)),
    "database": of_the_database,
    "outside": outside,
}


class Clumsy(JobHandler[ClumsyPayload]):
    """Fails on request."""

    type = "clumsy"
    retry = RetryPolicy.never()
    user_errors: ClassVar[tuple[builtins.type[Exception], ...]] = (ShopClosed,)

    def handle(self, job: JobContext, payload: ClumsyPayload) -> dict[str, Any]:
        if not payload.items:
            DEEDS[payload.raises](job)
        for step in job.each(range(payload.items)):
            with step:
                DEEDS[payload.raises](job)
        return {}


REGISTRY = Registry({"clumsy": f"{__name__}:Clumsy"})


class Reader:
    """A reader of a job's complete texts in the API and the pages."""

    def __init__(self, example: ExampleInstallation, client: FlaskClient, *, operator: bool) -> None:
        token = development_token(
            example.settings,
            user="eva" if operator else "ana",
            tenants=("suc0001",),
            role="operator" if operator else None,
        )
        self.client = client
        self.headers = {"Authorization": f"Bearer {token}", "X-Schema": "suc0001"}
        self.cookie = token

    def get(self, path: str) -> Any:
        return self.client.get(path, headers=self.headers).get_json()

    def reply(self, job: UUID) -> str:
        """Everything in one text."""
        paths = [
            f"/api/jobs/{job}",
            *(f"/api/jobs/{job}/{part}" for part in ("items", "events", "attempts", "effects")),
        ]
        result = [
            self.client.get(path, headers=self.headers).text for path in (*paths, "/api/jobs", "/api/notifications")
        ]
        self.client.set_cookie("turno", self.cookie)
        pages = (f"/jobs/{job}?branch=suc0001", f"/?branch=suc0001&open={job}", "/notifications?branch=suc0001")
        result += [self.client.get(path).text for path in pages]
        self.client.delete_cookie("turno")
        return "\n".join(result)


@pytest.fixture
def readers(example: ExampleInstallation) -> Iterator[tuple[Reader, Reader]]:
    with web_of(example, REGISTRY) as web:
        client = web.test_client()
        yield Reader(example, client, operator=False), Reader(example, client, operator=True)


def run(example: ExampleInstallation, raises: str, items: int = 0) -> UUID:
    job = example.enqueue({"raises": raises, "items": items}, handler=Clumsy, max_attempts=1)
    worker = InProcessWorker(example, REGISTRY)
    claim = worker.claim(job)
    assert claim is not None
    worker.execute(claim)
    return job


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The references that the log names, in the order of its lines."""
    return [
        record.error_id for record in caplog.records if hasattr(record, "error_id") and record.levelname == "WARNING"
    ]


@pytest.mark.parametrize("raises", ["bug", "value", "misuse", "database"])
def test_internal_error_is_a_reference_for_users(
    example: ExampleInstallation, readers: tuple[Reader, Reader], caplog: pytest.LogCaptureFixture, raises: str
) -> None:
    ana, eva = readers
    job = run(example, raises)
    seen, all_of_it = (reader.get(f"/api/jobs/{job}")["error"] for reader in readers)
    assert (seen["class"], seen["traceback"]) == ("UnexpectedError", None)
    assert seen["reference"] in seen["message"]
    assert logged(caplog) == [seen["reference"]]
    answer = ana.reply(job)
    assert SECRET not in answer
    assert f"by the reference {seen['reference']}" in answer
    assert SECRET in all_of_it["message"]
    assert SECRET in all_of_it["traceback"]
    assert all_of_it["class"] in ("KeyError", "ValueError", "HandlerMisuse", "InvalidTextRepresentation")
    assert all_of_it["reference"] == seen["reference"]
    known = eva.reply(job)
    assert SECRET in known
    assert f"({seen['reference']})" in known
    [letter] = eva.get("/api/admin/dead-letters")["dead_letters"]
    assert letter["error"] == all_of_it
    assert not [record for record in caplog.records if SECRET in record.getMessage() and record.levelname == "WARNING"]


def test_an_error_s_group_has_no_secret(example: ExampleInstallation, readers: tuple[Reader, Reader]) -> None:
    run(example, "credentials")
    [letter] = example.rows("SELECT error FROM turno.dead_letters")
    assert letter["error"] == f"ValueError: refused: … Bearer {LEFT_OUT}"
    assert SECRET not in readers[1].client.get("/admin/failures", headers=readers[1].headers).text


@pytest.mark.parametrize(
    ("raises", "message"),
    [
        ("closed", "The shop is closed: try again tomorrow."),
        ("user", "The customer has no tax number: enter it first."),
        ("permanent", "The period is closed."),
    ],
)
def test_text_for_users_is_shown_to_them(
    example: ExampleInstallation,
    readers: tuple[Reader, Reader],
    caplog: pytest.LogCaptureFixture,
    raises: str,
    message: str,
) -> None:
    job = run(example, raises)
    for reader in readers:
        error = reader.get(f"/api/jobs/{job}")["error"]
        assert (error["message"], error["reference"]) == (message, None)
        assert message in reader.reply(job)
    assert logged(caplog) == []
    batch = run(example, raises, items=2)
    errors = [item["error"] for item in readers[0].get(f"/api/jobs/{batch}/items")["items"]]
    assert [error["message"] for error in errors] == [message] * 2


def test_items_that_failed_of_one_bug_share_a_reference(
    example: ExampleInstallation, readers: tuple[Reader, Reader], caplog: pytest.LogCaptureFixture
) -> None:
    ana, eva = readers
    job = run(example, "bug", items=60)
    errors = [item["error"] for item in ana.get(f"/api/jobs/{job}/items?limit=200")["items"]]
    [reference] = {error["reference"] for error in errors}
    assert len(errors) == 60
    assert logged(caplog) == [reference]
    assert SECRET not in ana.reply(job)
    assert SECRET in eva.reply(job)
    again = run(example, "bug", items=1)
    [other] = [item["error"]["reference"] for item in ana.get(f"/api/jobs/{again}/items")["items"]]
    assert other != reference


def test_an_outside_call_s_own_words_are_for_operators(
    example: ExampleInstallation, readers: tuple[Reader, Reader], monkeypatch: pytest.MonkeyPatch
) -> None:
    ana, eva = readers
    job = run(example, "outside")
    assert example.find_job(job)["run_at"].year > 9000  # parked for a person
    answer = ana.reply(job)
    assert f"effect of {job} may have happened" in answer
    assert SECRET not in answer
    assert SECRET in eva.get(f"/api/jobs/{job}")["error"]["traceback"]
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TURNO_HANDLERS", f"{__name__}:REGISTRY")
    shown = CliRunner().invoke(main, ["job", "show", "--tenant", "suc0001", str(job)], catch_exceptions=False)
    assert f"caused by ConnectionError: {SECRET}" in shown.output


def test_unexpected_error_is_shown_to_operators_alone(
    example: ExampleInstallation, readers: tuple[Reader, Reader]
) -> None:
    ana, eva = readers
    job = run(example, "closed")
    for stored in (
        {},
        {"class": "Crash", "message": SECRET, "traceback": "x"},
        {"message": SECRET},
        {"for_users": "yes"},
    ):
        kept = json.dumps(stored)
        example.rows("UPDATE background_jobs SET error = %s WHERE id = %s", kept, job)
        example.rows("UPDATE background_job_attempt_rows SET error = %s WHERE job_id = %s", kept, job)
        assert SECRET not in ana.reply(job)
        assert (SECRET in eva.reply(job)) == (SECRET in kept)


def test_user_errors_are_the_service_s_own() -> None:
    with pytest.raises(ValueError, match="user_errors must name the service's own errors"):
        type("Careless", (Clumsy,), {"user_errors": (Exception,)})
    for error in (InvalidPayload([]), PermanentFailure("x"), EffectInDoubt("x")):
        assert Clumsy.is_for_users(error)

    class Hasty(Clumsy):
        user_errors = (psycopg.Error,)

    assert not Hasty.is_for_users(psycopg.errors.CheckViolation("Failing row contains (1, secret)"))
