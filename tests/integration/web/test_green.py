"""A completed label is true: a batch with some or all items failed has a separate word and shape on every page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.visitor import Visitor

if TYPE_CHECKING:
    from tests.api import Service


@pytest.fixture
def ana(service: Service) -> Visitor:
    visitor = Visitor(service.app)
    visitor.sign_in(None, "north")
    return visitor


def ended_batch(service: Service, user: str, *, done: int, failed: int) -> str:
    job = service.caller(user=user).job()
    service.rows(
        "INSERT INTO background_job_progress_rows (job_id, done, failed, total) VALUES (%s, %s, %s, %s)",
        job, done, failed, done + failed,
    )  # fmt: skip
    service.end(job, "completed")
    return job


@pytest.mark.parametrize(
    ("counts", "ended", "words"),
    [
        ((3, 0), ("done", "completed"), {"en": "Done", "es": "Listo"}),
        (
            (497, 3),
            ("done, some failed", "completed_with_failures"),
            {"en": "Done, 3 failed", "es": "Listo, 3 con error"},
        ),
        (
            (0, 3),
            ("not done, all failed", "nothing_done"),
            {"en": "Not done, 3 failed", "es": "Sin hacer, 3 con error"},
        ),
    ],
)
def test_a_batch_is_done_only_if_nothing_of_it_failed(
    service: Service, ana: Visitor, counts: tuple[int, int], ended: tuple[str, str], words: dict[str, str]
) -> None:
    done, failed = counts
    job = ended_batch(service, ana.user, done=done, failed=failed)
    caller = service.caller(user=ana.user)
    for body in (
        caller.get(f"/api/jobs/{job}").get_json(),
        caller.get("/api/jobs").get_json()["jobs"][0],
        caller.get("/api/notifications").get_json()["notifications"][0],
    ):
        assert (body["label"], body["outcome"]) == ended
    for language, word in words.items():
        home, own, bell = (
            ana.get(f"{path}?branch=north&lang={language}").text for path in ("/", f"/jobs/{job}", "/notifications")
        )
        assert f"· {word} ·" in own.partition("</title>")[0]
        for page in (home, own, bell):
            assert f"</svg>{word}</span>" in page
            assert ('"state done"' in page) == (failed == 0)


def test_one_failed_of_five_hundred_is_seen_in_the_bar(service: Service, ana: Visitor) -> None:
    for failed, least in ((1, "6"), (0, "0")):
        ended_batch(service, ana.user, done=500 - failed, failed=failed)
        bar = ana.get("/?branch=north").text.partition('role="progressbar"')[2].partition("</svg>")[0]
        widths = re.findall(r'<rect class="([\w ]+)" width="([\d.%]+)"', bar)
        share = "0.20%" if failed else "0.00%"
        assert widths == [("track", "100%"), ("part done", "100.00%"), ("part failed", share), ("failed", least)]
