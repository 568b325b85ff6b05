"""One list of labels: a job in each state has the same label in commands, API, pages, mails and metrics."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, get_args

import pytest
from click.testing import CliRunner

from handlers import build_registry
from tests.visitor import Visitor
from tests.web_in_process import web_of
from turno.capabilities.statistics.metrics import scrape
from turno.capabilities.webhooks.delivery import Delivery, mail_of
from turno.catalogue import catalogues
from turno.commands.main import main
from turno.commands.token import development_token
from turno.jobs.label import LABELS, UNCOUNTED, Label, Outcome
from turno.store.statements import qualified
from turno.web.pages.localizer import Localizer
from turno.wiring.logins import operator_session

if TYPE_CHECKING:
    from uuid import UUID

    from tests.installation import ExampleInstallation

LATER = "run_at = now() + interval '1 hour'"
OPEN: dict[Label, tuple[str, str]] = {  # changes of the job and of its ticket
    "waiting": ("run_at = run_at", "run_at = run_at"),
    "scheduled": (LATER, f"{LATER}, state = 'scheduled'"),
    "retrying": (f"{LATER}, attempt = 1, errors = 1, error = '{{}}'", f"{LATER}, state = 'scheduled', retrying = true"),
    "needs review": ("run_at = 'infinity', in_doubt = 'k'", "run_at = 'infinity', state = 'review'"),
    "running": ("status = 'running', started_at = now(), attempt = 1", "cancel_at = NULL"),
    "cancelling": (
        "status = 'running', started_at = now(), attempt = 1, cancel_requested_at = now()",
        "cancel_at = now()",
    ),
}
ENDS: dict[Label, tuple[str, str | None, int, int]] = {  # status, reason, done and failed items
    "done": ("completed", None, 2, 0),
    "done, some failed": ("completed", None, 1, 1),
    "not done, all failed": ("completed", None, 0, 2),
    "failed": ("failed", "no attempts left", 0, 0),
    "cancelled": ("cancelled", "cancelled by its user", 0, 0),
    "expired": ("cancelled", "expired", 0, 0),
}


@pytest.fixture
def jobs(example: ExampleInstallation) -> dict[str, Label]:
    """A job in each state, by its id."""
    example.backend = "pool"
    made: dict[str, Label] = {}
    for label, (of_job, of_ticket) in OPEN.items():
        job_id = example.enqueue({"order_ids": [1]}, user_id="ana")
        made[str(job_id)] = label
        example.rows(f"UPDATE background_jobs SET {of_job} WHERE id = %s", job_id)  # noqa: S608 - constants
        if label in ("running", "cancelling"):
            claimed = ", state = 'running', worker_id = gen_random_uuid(), token = gen_random_uuid()"
        else:
            claimed = ""
        example.rows(f"UPDATE turno.tickets SET {of_ticket}{claimed} WHERE job_id = %s", job_id)  # noqa: S608 - constants
    for label, (status, reason, done, failed) in ENDS.items():
        job_id = example.enqueue({"order_ids": [1]}, user_id="ana")
        made[str(job_id)] = label
        put_items(example, job_id, done=done, failed=failed)
        if label == "expired":
            example.rows("UPDATE background_jobs SET expires_at = now() WHERE id = %s", job_id)
            example.engine.execute(qualified("SELECT {}.job_expire()", example.one.schema))
            continue
        example.rows(
            "UPDATE background_jobs SET status = 'running', started_at = now(), attempt = 1 WHERE id = %s", job_id
        )
        error = json.dumps({"class": "Boom", "message": "it broke"}) if status == "failed" else None
        example.rows("SELECT job_end(%s, %s, %s, NULL, %s)", job_id, status, reason, error)
    assert sorted(made.values()) == sorted(get_args(Label))
    return made


def put_items(example: ExampleInstallation, job_id: UUID, *, done: int, failed: int) -> None:
    example.rows(
        "INSERT INTO background_job_progress_rows (job_id, done, failed, total) VALUES (%s, %s, %s, %s)",
        job_id, done, failed, done + failed,
    )  # fmt: skip
    example.rows(
        "INSERT INTO background_job_items (job_id, key, state, error)"
        " SELECT %s, n::text, CASE WHEN n <= %s THEN 'done' ELSE 'failed' END,"
        " CASE WHEN n > %s THEN '{\"class\": \"Boom\", \"message\": \"it broke\"}'::jsonb END"
        " FROM generate_series(1, %s) n",
        job_id, done, done, done + failed,
    )  # fmt: skip


def test_commands_show_the_label(
    example: ExampleInstallation, jobs: dict[str, Label], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)

    def printed(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["job", *arguments], prog_name="turno")
        assert done.exit_code == 0, done.output
        return done.output

    words = "|".join(sorted(get_args(Label), key=len, reverse=True))
    row = re.compile(rf"^(?:suc0001 +)?(\S{{36}}) +batch_invoicing +({words}) ", re.MULTILINE)
    for scope in (("--tenant", "suc0001"), ("--all",), ("--all", "--user", "ana")):
        assert dict(row.findall(printed("list", *scope))) == jobs, scope
    for job_id, label in jobs.items():
        assert f"\nstate         {label}\n" in printed("show", "--tenant", "suc0001", job_id)
    for outcome, label in LABELS.items():
        for where in ("--tenant=suc0001", "--all"):
            assert [jobs[job_id] for job_id, _ in row.findall(printed("list", where, "--outcome", outcome))] == [label]


def test_cancelled_claim_is_cancelling(example: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The attempt of a claimed job has not begun when its user cancels it: the job is still pending."""
    for name, value in example.environment.items():
        monkeypatch.setenv(name, value)
    example.backend = "pool"
    job_id = example.enqueue({"order_ids": [1]}, user_id="ana")
    claimed = "state = 'running', worker_id = gen_random_uuid(), token = gen_random_uuid()"
    example.rows(f"UPDATE turno.tickets SET {claimed} WHERE job_id = %s", job_id)  # noqa: S608 - constants
    assert example.cancel(job_id) == "requested"
    for scope in ("--tenant=suc0001", "--all"):
        done = CliRunner().invoke(main, ["job", "list", scope], prog_name="turno")
        assert re.search(rf"{job_id} +batch_invoicing +cancelling ", done.output), done.output


def shown(page: str) -> Counter[str]:
    """Return the words of the states on a page."""
    return Counter(re.findall(r'<span class="state [^"]*"><svg.*?</svg>([^<]*)</span>', page, re.DOTALL))


def test_api_and_pages_show_the_label(example: ExampleInstallation, jobs: dict[str, Label]) -> None:
    localizer = Localizer("en", datetime.now(UTC), catalogues(build_registry()))
    words = {job_id: localizer.say(label, n=ENDS[label][3] if label in ENDS else 0) for job_id, label in jobs.items()}
    of_ends = Counter(word for job_id, word in words.items() if jobs[job_id] in ENDS)
    eva = development_token(example.settings, user="eva", tenants=["suc0001"], role="admin")
    ana = development_token(example.settings, user="ana", tenants=["suc0001"])
    with web_of(example) as app:

        def answer(path: str, token: str = eva) -> Any:
            headers = {"Authorization": f"Bearer {token}", "X-Schema": "suc0001"}
            reply = app.test_client().get(path, headers=headers)
            assert reply.status_code == 200, reply.text
            return reply.get_json()

        listed = answer("/api/jobs?user=*&limit=50")["jobs"]
        assert {job["job_id"]: job["label"] for job in listed} == jobs
        assert {job["outcome"] for job in listed} == {None, *get_args(Outcome)}
        for path in ("/api/admin/jobs", "/api/admin/jobs?user=ana"):
            assert {job["job_id"]: job["label"] for job in answer(path)["jobs"]} == jobs
        told = answer("/api/notifications?limit=50", ana)["notifications"]
        assert {one["job_id"]: one["label"] for one in told} == {
            job_id: label for job_id, label in jobs.items() if label in ENDS
        }
        visitor, operator = Visitor(app), Visitor(app)
        visitor.post("/sign-in", {"token": ana})
        operator.post("/sign-in", {"token": eva})
        assert shown(visitor.get("/?branch=suc0001").text) >= Counter(words.values())
        assert shown(visitor.get("/notifications?branch=suc0001").text) == of_ends
        assert shown(operator.get("/admin/jobs?since=all").text) == Counter(words.values())
        for job_id, word in words.items():
            page = visitor.get(f"/jobs/{job_id}?branch=suc0001").text
            assert f" · {word} · Turno</title>" in page
            of_operator = operator.get(f"/admin/jobs/suc0001/{job_id}").text
            assert f" · {word} · suc0001 · Turno</title>" in of_operator
            if jobs[job_id] in ENDS:  # in the history, too
                assert min(shown(page)[word], shown(of_operator)[word]) >= 2


def test_mails_and_metrics_show_the_label(example: ExampleInstallation, jobs: dict[str, Label]) -> None:
    words = catalogues(build_registry())
    localizer = Localizer("en", datetime.now(UTC), words)
    ends = example.rows("SELECT job_id, tenant_id, type, outcome, at FROM turno.outcomes")
    assert {str(row["job_id"]): LABELS[row["outcome"]] for row in ends} == {
        job_id: label for job_id, label in jobs.items() if label in ENDS
    }
    for row in ends:
        label = jobs[str(row["job_id"])]
        delivery = Delivery(
            id=1, job_id=row["job_id"], tenant_id=row["tenant_id"], slug="suc0001", url="mailto:ana@shop.example",
            language="en", address_id=None, type=row["type"], outcome=row["outcome"], ended_at=row["at"], attempts=0,
        )  # fmt: skip
        word = localizer.say(UNCOUNTED.get(label, label))
        assert mail_of(delivery, catalogues=words, public_url="").subject == f"Invoicing · {word}"
    example.rows("SELECT turno.count_outcomes(1000)")
    example.rows(
        "INSERT INTO turno.handlers (type, version, queue, max_attempts, pending_limit)"
        " VALUES ('batch_invoicing', 1, 'cold', 4, 20) ON CONFLICT DO NOTHING"
    )
    with operator_session(example.settings) as operator:
        metrics = scrape(operator, dead_after=timedelta(minutes=1), streams=0, tenants=False)
    samples = [
        sample for metric in metrics for sample in metric.samples if sample.labels.get("type") == "batch_invoicing"
    ]
    ended = {sample.labels["outcome"]: sample.value for sample in samples if sample.name == "turno_jobs_ended_total"}
    assert ended == dict.fromkeys(LABELS, 1)
    states = {sample.labels["state"]: sample.value for sample in samples if sample.name == "turno_jobs"}
    # A job that is tried again is scheduled, and one that is being cancelled runs.
    assert states == {"scheduled": 2, "needs review": 1, "waiting": 1, "blocked": 0, "running": 2}
