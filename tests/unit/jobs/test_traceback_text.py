"""A traceback and a payload on a job's page."""

from __future__ import annotations

from typing import Any

from turno.jobs.error_record import without_our_frames
from turno.jobs.handler import JobHandler
from turno.jobs.job_context import JobContext
from turno.jobs.redaction import LEFT_OUT, Redaction

OURS = '  File "/venv/turno/runner/executor.py", line 7, in run\n    handler.handle(job, payload)\n    ^^^^^^^^^^^\n'
THEIRS = '  File "/srv/shop/turno/orders.py", line 9, in handle\n    raise Boom\n'
HEAD, TAIL = "Traceback (most recent call last):\n", "shop.Boom: it broke\n"


def test_our_frames_are_left_out_and_theirs_stay() -> None:
    assert without_our_frames(HEAD + OURS + THEIRS + TAIL) == HEAD + THEIRS + TAIL
    windows = OURS.replace("/", "\\")
    assert without_our_frames(HEAD + windows + THEIRS + TAIL) == HEAD + THEIRS + TAIL


def test_where_only_ours_are_they_stay() -> None:
    assert without_our_frames(HEAD + OURS + TAIL) == HEAD + OURS + TAIL
    assert without_our_frames("killed by signal 9") == "killed by signal 9"


def test_secrets_are_redacted_by_field_name_anywhere() -> None:
    given = {"password": "x", "user": "ana", "cards": [{"card_number": "4111", "Name": "A"}], "API-key": None}
    assert Redaction().value(given) == {
        "password": LEFT_OUT,
        "user": "ana",
        "cards": [{"card_number": LEFT_OUT, "Name": "A"}],
        "API-key": None,
    }
    assert Redaction().value({"compass": 1, "pinned": 2, "token": {"deep": 3}}) == {
        "compass": 1,
        "pinned": 2,
        "token": LEFT_OUT,
    }


class Filing(JobHandler[str]):
    type = "filing"
    redact = ("tax_id",)

    def handle(self, job: JobContext, payload: str) -> dict[str, Any]:
        raise NotImplementedError


def test_redacted_names_come_from_setting_and_handler() -> None:
    redaction = Redaction(["*_account"], [Filing])
    given = {"tax_id": 7, "bank_account": "x", "account_no": 3, "deep": [{"TAX_ID": 1, "tax_id": 2}]}
    seen = {"tax_id": LEFT_OUT, "bank_account": LEFT_OUT, "account_no": 3}
    assert redaction.value(given, "filing") == seen | {"deep": [{"TAX_ID": 1, "tax_id": LEFT_OUT}]}
    assert redaction.value(given, "other")["tax_id"] == 7
    assert redaction.value(given)["tax_id"] == LEFT_OUT


def test_error_text_hides_values_of_secret_names() -> None:
    error = {"class": "Boom", "message": 'tax_id: 20-1234 of "Ana", {"token": "a b", "n": 1}', "for_users": True}
    seen = Redaction(handlers=[Filing]).error(error)
    assert seen == error | {"message": f'tax_id: {LEFT_OUT} of "Ana", {{"token": {LEFT_OUT}, "n": 1}}'}
    assert Redaction().error(None) is None
