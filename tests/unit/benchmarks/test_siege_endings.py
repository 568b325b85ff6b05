"""The result of an attack in the siege's judgement."""

import json

import psycopg
import pytest

from benchmarks.http_client import Answer
from benchmarks.siege.attack import Attack, Ending, of_answers, of_job, refused
from benchmarks.siege.outcome import Done, Sample, SiegeReport, Window


def answer(status: int, *, kind: str = "", head: str = "", took: float = 10.0) -> Answer:
    body = json.dumps({"type": f"/docs#{kind}"}).encode() if kind else b"{}"
    return Answer(status, head, body, took)


@pytest.mark.parametrize(
    ("given", "decent"),
    [
        (answer(429, kind="quota-reached"), True),
        (answer(503, head="HTTP/1.1 503 \r\nRetry-After: 1"), True),
        (answer(503), False),
        (answer(500, kind="internal-fault"), False),
        (answer(202), False),
        (Answer(0, "", b"timed out", 10.0), False),
        (answer(400, kind="invalid-request", took=9_000.0), False),
        (Answer(404, "", b"<!doctype html><html>", 10.0), True),
    ],
)
def test_request_ends_decently_if_refused_in_time(given: Answer, *, decent: bool) -> None:
    assert of_answers([given], within=5.0).decent is decent


def test_grant_is_decent_only_if_allowed() -> None:
    granted = [answer(202), answer(429, kind="quota-reached")]
    assert of_answers(granted, fine=(202,), within=5.0).how == "1 x 202, 1 x 429 quota-reached; slowest 0.01 s"
    assert not of_answers(granted, within=5.0).decent
    assert not of_answers([], within=5.0).decent


def job(status: str, **error: str) -> dict[str, object]:
    return {"status": status, "attempt": 1, "errors": 1, "crashes": 0, "error": error or None}


def test_job_of_an_attacker_fails_alone() -> None:
    assert of_job(job("failed", **{"class": "CheckViolation", "message": "too long"})).decent
    assert not of_job(job("pending")).decent
    assert not of_job(job("completed")).decent
    assert of_job(job("completed"), may_complete=True).decent
    assert not of_job(None).decent


def test_attack_outside_the_schema_is_no_attack() -> None:
    assert not of_job(job("failed", **{"class": "UndefinedFunction"})).decent
    assert not refused(psycopg.errors.UndefinedColumn("no such column")).decent
    assert refused(psycopg.errors.InsufficientPrivilege("permission denied\nDETAIL: of no interest")) == Ending(
        decent=True, how="refused: 42501 InsufficientPrivilege: permission denied"
    )


SAMPLES = [(1.0, 10.0), (3.0, 30.0), (5.0, 99.0)]


def test_victim_samples_are_separated_by_due_time() -> None:
    report = SiegeReport("siege", "ms")
    attack = Attack("a flood", "B", "HTTP", lambda _target, _seconds: lambda: Ending(decent=True, how=""))
    kinds = ("POST", "job", "followed", "bare")
    samples = [Sample(kind, moment, took) for kind in kinds for moment, took in SAMPLES]
    report.measure(samples, [Window(0, 2), Window(4, 6)], Window(2, 4))
    report.tell([Done(attack, Window(2, 4), Ending(decent=False, how="500"))], samples)
    assert (report.facts["calm_p99_ms"], report.facts["victim_p99_ms"], report.facts["ratio"]) == (10, 30, 3)
    assert (report.facts["job_ratio"], report.facts["followed_ratio"], report.facts["attacks"]) == (3, 3, 1)
    assert report.endings[0]["p99_ms"] == {"request": 30, "job": 30, "followed job": 30, "bare web": 30}
    assert report.broken == ["a flood: 500"]
    assert report.lines()[-1] == "BROKEN: a flood: 500"
