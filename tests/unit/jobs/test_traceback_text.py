"""What a job's page shows of a traceback and of a payload."""

from __future__ import annotations

from turno.jobs.redaction import LEFT_OUT, redacted
from turno.jobs.traceback_text import without_our_frames

OURS = '  File "/venv/turno/runner/attempt.py", line 7, in run\n    handler.handle(job, payload)\n    ^^^^^^^^^^^\n'
THEIRS = '  File "/srv/shop/turno/orders.py", line 9, in handle\n    raise Boom\n'
HEAD, TAIL = "Traceback (most recent call last):\n", "shop.Boom: it broke\n"


def test_our_frames_are_left_out_and_theirs_stay() -> None:
    assert without_our_frames(HEAD + OURS + THEIRS + TAIL) == HEAD + THEIRS + TAIL
    windows = OURS.replace("/", "\\")
    assert without_our_frames(HEAD + windows + THEIRS + TAIL) == HEAD + THEIRS + TAIL


def test_where_only_ours_are_they_stay() -> None:
    assert without_our_frames(HEAD + OURS + TAIL) == HEAD + OURS + TAIL
    assert without_our_frames("killed by signal 9") == "killed by signal 9"


def test_secrets_are_left_out_by_the_name_of_their_field_wherever_they_stand() -> None:
    given = {"password": "x", "user": "ana", "cards": [{"card_number": "4111", "Name": "A"}], "API-key": None}
    assert redacted(given) == {
        "password": LEFT_OUT,
        "user": "ana",
        "cards": [{"card_number": LEFT_OUT, "Name": "A"}],
        "API-key": None,
    }
    assert redacted({"compass": 1, "pinned": 2, "token": {"deep": 3}}) == {"compass": 1, "pinned": 2, "token": LEFT_OUT}
