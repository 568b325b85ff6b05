"""An outside effect happens once: what is known is not done again, and what is in doubt never on a guess."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
import pytest

from tests.attempt_here import attempt, claim_here, execute_here
from tests.installation import ExampleInstallation
from tests.misbehaving_handlers import Odd, OddHurried
from tests.misdeeds.deed import DEEDS
from turno.errors import EffectInDoubt, NotIssued
from turno.jobs.effect import Absent, Done, Effect, Finding, Unknown
from turno.store.api import effect_review
from turno.store.engine import recovery
from turno.store.handler import effects
from turno.testing.build import FOREVER

if TYPE_CHECKING:
    from collections.abc import Callable

    from turno.jobs.handler import JobContext

KEY = "cae:1:B:7"


class Died(BaseException):
    """Ends an attempt in this process as a kill ends one in a process of its own: nothing is recorded."""


@dataclass
class Outside:
    """The other side, as a handler reaches it: `answers` and `findings` are given in turn, exceptions raised."""

    answers: list[Any] = field(default_factory=list)
    findings: list[Any] = field(default_factory=list)
    calls: list[Effect] = field(default_factory=list)
    looked: list[Effect] = field(default_factory=list)

    def call(self, effect: Effect) -> Any:
        self.calls.append(effect)
        return self._next(self.answers, {"cae": len(self.calls)})

    def reconcile(self, effect: Effect) -> Finding:
        self.looked.append(effect)
        finding: Finding = self._next(self.findings, None)
        return finding

    def _next(self, given: list[Any], otherwise: Any) -> Any:
        answer = given.pop(0) if given else otherwise
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer


@dataclass
class Place:
    """A world with the other side, and jobs whose one deed is the test's."""

    world: ExampleInstallation
    outside: Outside
    patch: pytest.MonkeyPatch

    def enqueue(self, deed: Callable[[JobContext], Any] | None = None, **options: Any) -> UUID:
        """A job that writes, has the effect happen, and writes again; or one that does a deed of the test's."""
        how = {name: options.pop(name) for name in ("idempotent", "look") if name in options}
        self.patch.setitem(DEEDS, "ok", lambda job, _payload: deed(job) if deed else self.plain(job, **how))
        return self.world.enqueue({"how": "ok"}, **{"handler": Odd} | options)

    def plain(self, job: JobContext, *, idempotent: bool = False, look: bool = True) -> dict[str, Any]:
        write(job, "before")
        reconcile = self.outside.reconcile if look else None
        answer = job.once(KEY, self.outside.call, reconcile, idempotent=idempotent)
        write(job, "after")
        return {"answer": answer}

    def die(self, job_id: UUID, *, buried: bool) -> None:
        """Run an attempt that dies while it calls, seen by its parent or by nobody, and take the job from it."""
        self.outside.answers.append(Died())
        claim = claim_here(self.world, job_id)
        with pytest.raises(Died):
            execute_here(self.world, claim)
        engine, schema = self.world.engine, self.world.one.schema
        child = 1 if buried else None
        recovery.rescue(
            engine, schema, job_id, claim.token, cause="test", retry_in=timedelta(0), counted=True, child=child
        )

    def effect(self, key: str = KEY) -> dict[str, Any]:
        (row,) = self.world.rows("SELECT * FROM external_effects WHERE key = %s", key)
        return row

    def decide(self, job_id: UUID, result: str | None) -> str:
        """Settle as a person does: with a result as done, with none as absent."""
        row = self.world.call(effect_review.DECIDE, (job_id, "ana", KEY, result, "ana"))
        return str(row["verdict"])

    def written(self) -> list[str]:
        rows = self.world.rows("SELECT address FROM customers WHERE company_name = 'Odd' ORDER BY address")
        return [row["address"] for row in rows]


@pytest.fixture
def place(world: ExampleInstallation, monkeypatch: pytest.MonkeyPatch) -> Place:
    world.rows("DELETE FROM customers WHERE company_name = 'Odd'")
    return Place(world, Outside(), monkeypatch)


def write(job: JobContext, when: str) -> None:
    job.connection.execute(
        "INSERT INTO customers (id, company_name, tax_condition, address, country)"
        " VALUES (gen_random_uuid()::text, 'Odd', 'registered', %s, 'once')",
        (when,),
    )


def test_a_second_job_gets_the_stored_result_without_a_call(world: ExampleInstallation, place: Place) -> None:
    assert attempt(world, place.enqueue())["result"] == {"answer": {"cae": 1}}
    assert attempt(world, place.enqueue())["result"] == {"answer": {"cae": 1}}
    (call,) = place.outside.calls
    row = place.effect()
    assert (row["state"], row["result"], row["calls"], row["settled_by"]) == ("done", {"cae": 1}, 1, "its call")
    assert (call.key, call.outside_key, call.calls) == (KEY, row["outside_key"], 1)
    assert place.written() == ["after", "after", "before", "before"]


@pytest.mark.parametrize("answer", [None, [], "text", 0, {"a": [1, None]}])
def test_any_json_is_a_result(world: ExampleInstallation, place: Place, answer: Any) -> None:
    place.outside.answers = [lambda: answer]
    assert attempt(world, place.enqueue())["result"] == {"answer": answer}
    assert attempt(world, place.enqueue())["result"] == {"answer": answer}
    assert len(place.outside.calls) == 1


def test_nothing_is_open_during_the_call_and_what_came_before_is_committed(
    world: ExampleInstallation, place: Place
) -> None:
    def look_around() -> dict[str, Any]:
        assert place.written() == ["before"]
        assert place.effect()["state"] == "intended"
        sessions = world.rows(
            "SELECT state, backend_xid, backend_xmin FROM pg_stat_activity WHERE application_name = 'test'"
        )
        assert {(row["state"], row["backend_xid"], row["backend_xmin"]) for row in sessions} == {("idle", None, None)}
        return {"seen": True}

    place.outside.answers = [look_around]
    assert attempt(world, place.enqueue())["result"] == {"answer": {"seen": True}}


def test_what_fails_after_the_call_undoes_neither_the_effect_nor_what_came_before(
    world: ExampleInstallation, place: Place
) -> None:
    def deed(job: JobContext) -> dict[str, Any]:
        place.plain(job)
        raise ValueError(job.attempt)

    job_id = place.enqueue(deed)
    assert attempt(world, job_id)["errors"] == 1
    assert (place.effect()["state"], place.written()) == ("done", ["before"])
    attempt(world, job_id)
    assert len(place.outside.calls) == 1


@dataclass(frozen=True)
class Doubt:
    """An intent without a settlement, and what must follow from it."""

    finding: Finding | None  # None: the handler has no look-up
    ends: str
    buried: bool = True  # the dead attempt's parent saw it die
    idempotent: bool = False


CANNOT_TELL = Unknown("the authority cannot tell")


@pytest.mark.parametrize(
    "doubt",
    [
        Doubt(Done({"cae": 7}), "found"),
        Doubt(Done({"cae": 7}), "found", buried=False),
        Doubt(Absent(), "issued"),
        Doubt(Absent(), "issued", buried=False, idempotent=True),
        Doubt(Absent(), "parked", buried=False),
        Doubt(CANNOT_TELL, "parked"),
        Doubt(CANNOT_TELL, "parked", idempotent=True),
        Doubt(None, "parked"),
        Doubt(None, "issued", buried=False, idempotent=True),
    ],
    ids=lambda doubt: f"{type(doubt.finding).__name__}-{doubt.buried}-{doubt.idempotent}",
)
def test_what_follows_from_doubt(world: ExampleInstallation, place: Place, doubt: Doubt) -> None:
    job_id = place.enqueue(idempotent=doubt.idempotent, look=doubt.finding is not None)
    place.die(job_id, buried=doubt.buried)
    place.outside.findings = [doubt.finding]
    job = attempt(world, job_id)
    calls = [call.outside_key for call in place.outside.calls]
    assert len(place.outside.looked) == (doubt.finding is not None)
    assert len(set(calls)) == 1
    match doubt.ends:
        case "found":
            assert (job["result"], len(calls)) == ({"answer": {"cae": 7}}, 1)
            assert place.effect()["settled_by"] == "a look-up"
        case "issued":
            assert (job["result"], len(calls)) == ({"answer": {"cae": 2}}, 2)
            assert place.effect()["calls"] == 2
        case "parked":
            assert (job["status"], job["run_at"], job["errors"], len(calls)) == ("pending", FOREVER, 0, 1)
            assert KEY in job["reason"]
            assert place.effect()["waiting"] == [job_id]


def test_a_call_that_failed_is_looked_up_and_its_own_process_says_that_it_is_over(
    world: ExampleInstallation, place: Place
) -> None:
    place.outside.answers = [TimeoutError("no answer")]
    place.outside.findings = [Absent()]
    assert attempt(world, job_id := place.enqueue())["error"]["class"] == "EffectInDoubt"
    assert place.effect()["caller_gone"]
    assert attempt(world, job_id)["result"] == {"answer": {"cae": 2}}


def test_a_call_that_did_nothing_is_made_again_without_a_look_up(world: ExampleInstallation, place: Place) -> None:
    place.outside.answers = [NotIssued("connection refused")]
    job = attempt(world, job_id := place.enqueue())
    assert (job["errors"], place.effect()["state"]) == (1, "absent")
    assert attempt(world, job_id)["result"] == {"answer": {"cae": 2}}
    assert place.outside.looked == []


def test_a_look_up_that_fails_is_an_error_and_made_again(world: ExampleInstallation, place: Place) -> None:
    place.die(job_id := place.enqueue(), buried=True)
    place.outside.findings = [ConnectionError("try later"), Done("late")]
    assert attempt(world, job_id)["error"]["class"] == "EffectInDoubt"
    assert attempt(world, job_id)["result"] == {"answer": "late"}


def test_a_handler_that_swallows_the_error_and_calls_again_is_in_doubt_too(
    world: ExampleInstallation, place: Place
) -> None:
    def deed(job: JobContext) -> dict[str, Any]:
        with pytest.raises(EffectInDoubt):
            place.plain(job)
        return place.plain(job)

    place.outside.answers = [TimeoutError()]
    place.outside.findings = [Done("found")]
    assert attempt(world, place.enqueue(deed))["result"] == {"answer": "found"}
    assert len(place.outside.calls) == 1


@pytest.mark.parametrize(
    "answer", [{"a": float("nan")}, {1, 2}, "x" * 70_000, "a\0b"], ids=["nan", "set", "large", "nul"]
)
def test_an_answer_that_cannot_be_stored_fails_the_job_and_stays_in_doubt(
    world: ExampleInstallation, place: Place, answer: Any
) -> None:
    place.outside.answers = [lambda: answer]
    job = attempt(world, place.enqueue())
    assert (job["status"], job["error"]["class"]) == ("failed", "InvalidResult")
    assert (place.effect()["state"], place.effect()["caller_gone"]) == ("intended", True)


def test_while_another_job_calls_nobody_else_does(world: ExampleInstallation, place: Place) -> None:
    first, second = place.enqueue(), place.enqueue()
    seen: list[dict[str, Any]] = []

    def meanwhile() -> str:
        seen.append(attempt(world, second))
        return "mine"

    place.outside.answers = [meanwhile]
    assert attempt(world, first)["result"] == {"answer": "mine"}
    (waits,) = seen
    assert (waits["status"], waits["errors"], waits["run_at"] > datetime.now(UTC)) == ("pending", 0, True)
    world.time_passes()
    assert attempt(world, second)["result"] == {"answer": "mine"}
    assert len(place.outside.calls) == 1


def test_an_intent_that_comes_just_too_late_gets_the_result(world: ExampleInstallation, place: Place) -> None:
    attempt(world, place.enqueue())

    def intend_all_the_same(job: Any) -> dict[str, Any]:
        known = effects.intend(job.connection, job._transaction.claim, KEY, place.effect()["outside_key"])
        return {"verdict": known.verdict, "result": known.result}

    assert attempt(world, place.enqueue(intend_all_the_same))["result"] == {"verdict": "done", "result": {"cae": 1}}


def test_two_jobs_in_doubt_issue_it_again_once(world: ExampleInstallation, place: Place) -> None:
    first, second = place.enqueue(), place.enqueue()
    place.die(first, buried=True)

    def the_other_is_faster() -> Finding:
        assert attempt(world, second)["result"] == {"answer": {"cae": 2}}
        return Absent()

    place.outside.findings = [the_other_is_faster, Absent()]
    assert attempt(world, first)["status"] == "pending"
    assert len(place.outside.calls) == 2
    world.time_passes()
    assert attempt(world, first)["result"] == {"answer": {"cae": 2}}


def test_a_job_whose_third_crash_leaves_an_effect_in_doubt_waits_for_a_person(
    world: ExampleInstallation, place: Place
) -> None:
    job_id = place.enqueue(look=False)
    world.rows("UPDATE background_jobs SET crashes = 2, attempt = 2")
    world.rows("UPDATE turno.tickets SET crashes = 2, attempt = 2")
    place.die(job_id, buried=True)
    job = world.job(job_id)
    assert (job["status"], job["run_at"], job["crashes"]) == ("pending", FOREVER, 3)
    assert job["reason"] == f"{KEY} is in doubt: test"
    assert world.rows("SELECT kind FROM notifications") == [{"kind": "needs_review"}]
    assert world.rows("SELECT 1 FROM background_jobs_dead_letter") == []
    assert place.decide(job_id, '"granted"') == "settled"
    assert attempt(world, job_id)["result"] == {"answer": "granted"}


def test_a_zombie_s_answer_is_refused_and_looked_up(world: ExampleInstallation, place: Place) -> None:
    job_id = place.enqueue()
    claim = claim_here(world, job_id)

    def lose_the_claim() -> str:
        world.rows("UPDATE background_job_attempts SET backend_start = 'epoch'")
        recovery.rescue(world.engine, world.one.schema, job_id, claim.token, cause="test", retry_in=timedelta(0))
        return "too late"

    place.outside.answers = [lose_the_claim]
    assert execute_here(world, claim)["status"] == "pending"
    assert (place.effect()["state"], place.effect()["caller_gone"]) == ("intended", False)
    place.outside.findings = [Absent()]
    assert attempt(world, job_id)["run_at"] == FOREVER


def test_a_session_that_breaks_during_the_call_loses_no_answer(world: ExampleInstallation, place: Place) -> None:
    def cut() -> str:
        world.rows("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'test'")
        return "granted"

    place.outside.answers = [cut]
    job = attempt(world, place.enqueue())
    assert (place.effect()["state"], place.effect()["result"]) == ("done", "granted")
    assert job["result"] == {"answer": "granted"}


def test_a_key_of_another_type_is_a_mistake(world: ExampleInstallation, place: Place) -> None:
    attempt(world, place.enqueue())
    job = attempt(world, place.enqueue(handler=OddHurried))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert "another job type" in job["error"]["message"]


def test_two_tenants_with_one_key_are_two_effects(world: ExampleInstallation, place: Place) -> None:
    attempt(world, place.enqueue())
    attempt(world, place.enqueue(tenant=world.other))
    one, other = place.outside.calls
    assert one.outside_key != other.outside_key


@pytest.mark.parametrize("key", ["", "x" * 256, "a\0b"], ids=["empty", "long", "nul"])
def test_a_key_that_cannot_be_kept_is_refused(world: ExampleInstallation, place: Place, key: str) -> None:
    job = attempt(world, place.enqueue(lambda job: job.once(key, place.outside.call)))
    assert (job["status"], job["error"]["class"], place.outside.calls) == ("failed", "HandlerMisuse", [])


def test_the_call_cannot_use_the_job_s_session(world: ExampleInstallation, place: Place) -> None:
    def deed(job: JobContext) -> Any:
        cursor = job.connection.cursor()

        def call(_effect: Effect) -> None:
            cursor.execute("DELETE FROM customers")

        job.once(KEY, call)

    job = attempt(world, place.enqueue(deed))
    assert (job["status"], job["error"]["class"]) == ("failed", "HandlerMisuse")
    assert "must not use the database" in job["error"]["message"]


def test_within_a_savepoint_of_the_handler_s_it_is_refused(world: ExampleInstallation, place: Place) -> None:
    def deed(job: JobContext) -> Any:
        with job.connection.transaction():
            return place.plain(job)

    job = attempt(world, place.enqueue(deed))
    assert (job["status"], job["error"]["class"], place.outside.calls) == ("failed", "HandlerMisuse", [])


def test_after_a_commit_behind_our_back_it_is_refused(world: ExampleInstallation, place: Place) -> None:
    def deed(job: JobContext) -> Any:
        job.connection.execute("COMMIT; BEGIN")
        return place.plain(job)

    job = attempt(world, place.enqueue(deed))
    assert (job["status"], job["error"]["class"], place.outside.calls) == ("failed", "HandlerMisuse", [])


def batch(place: Place, *, write_first: bool = False) -> Callable[[JobContext], dict[str, Any]]:
    """Five items of a batch, each with an outside effect of its own."""

    def deed(job: JobContext) -> dict[str, Any]:
        items = job.each(range(5), chunk=2)
        for step in items:
            with step as item:
                job.connection.execute("SELECT count(*) FROM customers")
                if write_first:
                    write(job, "early")
                answer = job.once(f"cae:{item.value}", place.outside.call, place.outside.reconcile)
                write(job, f"item {item.value}")
                item.ref = str(answer["cae"])
        return {"done": items.counts.done, "failed": items.counts.failed}

    return deed


def test_each_item_of_a_batch_may_have_its_effect(world: ExampleInstallation, place: Place) -> None:
    place.outside.answers = [{"cae": "a"}, NotIssued("refused"), {"cae": "c"}]
    job = attempt(world, place.enqueue(batch(place)))
    assert job["result"] == {"done": 4, "failed": 1}
    ledger = world.rows("SELECT key, state, ref FROM background_job_items ORDER BY key")
    assert [(row["key"], row["state"]) for row in ledger] == [
        ("0", "done"), ("1", "failed"), ("2", "done"), ("3", "done"), ("4", "done"),
    ]  # fmt: skip
    assert place.written() == ["item 0", "item 2", "item 3", "item 4"]


def test_an_item_is_not_blamed_for_a_call_without_an_answer(world: ExampleInstallation, place: Place) -> None:
    place.outside.answers = [{"cae": "a"}, TimeoutError("no answer")]
    place.outside.findings = [Done({"cae": "b"})]
    job = attempt(world, job_id := place.enqueue(batch(place)))
    assert (job["errors"], job["error"]["class"]) == (1, "EffectInDoubt")
    assert attempt(world, job_id)["result"] == {"done": 5, "failed": 0}
    assert place.written() == [f"item {item}" for item in range(5)]


def test_a_job_without_attempts_left_is_parked_rather_than_failed_in_doubt(
    world: ExampleInstallation, place: Place
) -> None:
    place.outside.answers = [TimeoutError("no answer")]
    job = attempt(world, job_id := place.enqueue(max_attempts=1))
    assert (job["status"], job["run_at"], job["reason"].split(":")[0]) == ("pending", FOREVER, "no attempts left")
    assert place.decide(job_id, '"paid"') == "settled"
    assert attempt(world, job_id)["result"] == {"answer": "paid"}


def test_an_item_that_died_while_it_called_goes_on_from_there(world: ExampleInstallation, place: Place) -> None:
    place.outside.answers = [{"cae": "a"}, {"cae": "b"}, {"cae": "c"}]
    job_id = place.enqueue(batch(place))
    place.die(job_id, buried=True)
    place.outside.findings = [Done({"cae": "d"})]
    assert attempt(world, job_id)["result"] == {"done": 5, "failed": 0}
    assert [call.key for call in place.outside.calls] == [f"cae:{item}" for item in range(5)]
    assert place.written() == [f"item {item}" for item in range(5)]


def test_doubt_about_one_item_parks_the_job_and_blames_no_item(world: ExampleInstallation, place: Place) -> None:
    job_id = place.enqueue(batch(place))
    place.die(job_id, buried=True)
    place.outside.findings = [Unknown("who knows")]
    assert attempt(world, job_id)["run_at"] == FOREVER
    assert world.rows("SELECT 1 FROM background_job_items") == []


def test_an_item_that_has_written_cannot_commit_the_half_of_it(world: ExampleInstallation, place: Place) -> None:
    job = attempt(world, place.enqueue(batch(place, write_first=True)))
    assert (job["status"], job["error"]["class"], place.outside.calls) == ("failed", "HandlerMisuse", [])
    assert place.written() == []


def test_a_cancelled_job_issues_nothing_more(world: ExampleInstallation, place: Place) -> None:
    def deed(job: JobContext) -> dict[str, Any]:
        world.cancel(job.job_id)
        return place.plain(job)

    assert attempt(world, place.enqueue(deed))["status"] == "cancelled"
    assert (place.outside.calls, world.rows("SELECT 1 FROM external_effects")) == ([], [])


def test_a_parked_job_asks_its_user_once_and_goes_on_when_answered(world: ExampleInstallation, place: Place) -> None:
    place.die(job_id := place.enqueue(), buried=False)
    place.outside.findings = [Absent()]
    attempt(world, job_id)
    (told,) = world.rows("SELECT kind, data, read_at FROM notifications")
    assert (told["kind"], told["data"]["key"], told["read_at"]) == ("needs_review", KEY, None)
    assert place.decide(job_id, '{"cae": 9}') == "settled"
    assert place.decide(job_id, None) == "ended"
    assert attempt(world, job_id)["result"] == {"answer": {"cae": 9}}
    assert len(place.outside.calls) == 1
    (event,) = world.rows("SELECT reason FROM background_job_events WHERE old_status = new_status")
    assert event["reason"] == f"{KEY} was settled as done by ana"
    (told, ended) = world.rows("SELECT kind, read_at FROM notifications ORDER BY id")
    assert (told["read_at"] is not None, ended["kind"]) == (True, "completed")


def test_what_a_person_calls_absent_is_issued_again(world: ExampleInstallation, place: Place) -> None:
    place.die(job_id := place.enqueue(), buried=False)
    place.outside.findings = [Absent()]
    attempt(world, job_id)
    assert place.decide(job_id, None) == "settled"
    assert attempt(world, job_id)["result"] == {"answer": {"cae": 2}}


def test_the_job_that_continues_a_poisoned_one_looks_up_its_effect(world: ExampleInstallation, place: Place) -> None:
    job_id = place.enqueue()
    place.outside.findings = [Absent(), Absent()]
    for _ in range(3):
        place.die(job_id, buried=True)
    assert (world.job(job_id)["crashes"], world.job(job_id)["run_at"]) == (3, FOREVER)
    assert world.cancel(job_id) == "cancelled"
    first, second = (world.retry(job_id) for _ in range(2))
    assert (first["verdict"], second["verdict"], first["job_id"]) == ("accepted", "replayed", second["job_id"])
    place.outside.findings = [Done("the third one")]
    assert attempt(world, first["job_id"])["result"] == {"answer": "the third one"}
    assert (len(place.outside.calls), world.retry(first["job_id"])["verdict"]) == (3, "not_retryable")


def test_settling_wakes_every_job_that_waits_for_it(world: ExampleInstallation, place: Place) -> None:
    place.die(first := place.enqueue(), buried=False)
    second = place.enqueue()
    place.outside.findings = [Unknown("no"), Unknown("no")]
    assert {attempt(world, first)["run_at"], attempt(world, second)["run_at"]} == {FOREVER}
    assert place.decide(second, '"both"') == "settled"
    assert [attempt(world, job_id)["result"] for job_id in (first, second)] == [{"answer": "both"}] * 2


def test_a_person_cannot_settle_what_is_being_issued_nor_what_is_another_s(
    world: ExampleInstallation, place: Place
) -> None:
    job_id = place.enqueue()
    verdicts: list[str] = []

    def meanwhile() -> str:
        verdicts.append(place.decide(job_id, None))
        return "mine"

    place.outside.answers = [meanwhile]
    attempt(world, job_id)
    assert verdicts == ["busy"]
    stranger = world.call(effect_review.DECIDE, (job_id, "eve", KEY, None, "eve"))
    assert stranger["verdict"] == "unknown"
    assert place.decide(place.enqueue(), None) == "unknown"


def test_a_parked_job_can_be_cancelled_and_its_effect_stays_on_record(world: ExampleInstallation, place: Place) -> None:
    place.die(job_id := place.enqueue(), buried=False)
    place.outside.findings = [Absent()]
    attempt(world, job_id)
    assert world.cancel(job_id) == "cancelled"
    assert place.effect()["state"] == "intended"
    assert place.decide(job_id, '"paid"') == "settled"
    assert attempt(world, place.enqueue())["result"] == {"answer": "paid"}


def test_a_job_that_reached_outside_never_expires(world: ExampleInstallation, place: Place) -> None:
    job_id = place.enqueue(expires_at=datetime.now(UTC) + timedelta(hours=1))
    place.die(job_id, buried=False)
    place.outside.findings = [Absent()]
    attempt(world, job_id)
    assert world.job(job_id)["expires_at"] is None
    assert world.sweep()["expired"] == 0


def test_no_pass_of_cron_touches_a_parked_job_or_forgets_an_effect(world: ExampleInstallation, place: Place) -> None:
    place.die(job_id := place.enqueue(), buried=False)
    place.outside.findings = [Absent()]
    attempt(world, job_id)
    before = world.job(job_id)
    assert set(world.sweep().values()) == {0}
    assert world.job(job_id) == before
    world.cancel(job_id)
    world.rows("UPDATE background_jobs SET finished_at = finished_at - interval '1 year'")
    assert world.sweep()["purged"] == 1
    assert place.effect()["state"] == "intended"


def test_after_a_restore_even_the_first_call_waits_for_a_look_up(world: ExampleInstallation, place: Place) -> None:
    world.rows("INSERT INTO external_doubt DEFAULT VALUES")
    place.outside.findings = [Absent(), Done("the old one")]
    assert attempt(world, place.enqueue())["result"] == {"answer": {"cae": 1}}
    world.rows("TRUNCATE external_effects")
    assert attempt(world, place.enqueue())["result"] == {"answer": "the old one"}
    world.rows("TRUNCATE external_effects")
    assert attempt(world, place.enqueue(look=False))["run_at"] == FOREVER
    assert len(place.outside.calls) == 1


def test_the_tables_refuse_a_settlement_without_its_result(world: ExampleInstallation, place: Place) -> None:
    attempt(world, place.enqueue())
    with pytest.raises(psycopg.errors.CheckViolation):
        world.rows("UPDATE external_effects SET result = NULL")
