"""The pages of schedules: a form adds, changes, pauses and removes a schedule, and shows errors beside their fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.greetings import Greetings, valid_body
from tests.visitor import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.api import Service

FORM = {
    "branch": "north", "name": "nightly", "type": "greetings", "cron": "0 3 * * *", "every": "", "spread": "",
    "zone": "America/Argentina/Buenos_Aires", "missed": "all", "priority": "low",
    "payload": json.dumps(valid_body()["payload"]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def none_left(service: Service) -> Iterator[None]:
    yield
    service.rows("DELETE FROM job_schedules")


@pytest.fixture
def ana(service: Service) -> Visitor:
    visitor = Visitor(service.app)
    visitor.sign_in(None, "north")
    return visitor


def send(visitor: Visitor, path: str, **changes: str) -> Any:
    return visitor.post(path, FORM | {"form": visitor.form_token} | changes)


def stored(service: Service) -> list[tuple[Any, ...]]:
    return service.rows("SELECT name, cron, every, missed, priority, paused_at IS NULL FROM job_schedules")


def test_a_schedule_by_forms_alone(service: Service, ana: Visitor) -> None:
    assert "No schedules yet" in ana.get("/schedules?branch=north").text
    made = send(ana, "/schedules")
    assert (made.status_code, made.headers["Location"]) == (303, "/schedules/nightly?branch=north")
    assert stored(service) == [("nightly", "0 3 * * *", None, "all", 2, True)]
    page = ana.get("/schedules/nightly?branch=north").text
    assert page.count("<li><time") == 5
    assert '<option value="* * *" selected>Every day</option>' in page
    assert 'name="at" value="03:00"' in page
    assert "nightly" in ana.get("/schedules?branch=north").text
    assert send(ana, "/schedules/nightly", cron="", days="L * *", at="18:30").status_code == 303
    assert stored(service)[0][1] == "30 18 L * *"
    assert send(ana, "/schedules/nightly", cron="", every="900").status_code == 303
    assert stored(service) == [("nightly", None, 900, "all", 2, True)]
    send(ana, "/schedules/nightly/pause")
    assert not stored(service)[0][-1]
    assert "Paused" in ana.get("/schedules?branch=north").text
    send(ana, "/schedules/nightly/resume")
    assert stored(service)[0][-1]
    assert send(ana, "/schedules/nightly/remove").headers["Location"] == "/schedules?branch=north"
    assert stored(service) == []


@pytest.mark.parametrize(
    ("changes", "field", "reply"),
    [
        ({"cron": "61 * * * *"}, "cron", "the field minute is not in order"),
        ({"cron": "", "days": "* * *", "at": "noon"}, "at", "Write a time such as 03:00."),
        ({"cron": "", "days": "x", "at": "3:00"}, "cron", "has five fields"),
        ({"cron": "", "every": "1"}, "every", "Write a number of seconds"),
        ({"every": "soon", "cron": ""}, "every", "Write a number of seconds"),
        ({"zone": "<b>Mars"}, "zone", "There is no such time zone."),
        ({"payload": "{"}, "payload", "is not valid JSON"),
        ({"payload": '{"nonsense": 1}'}, "payload", "nonsense: is not a field"),
        ({"name": "No name"}, "name", "Use small letters"),
        ({"type": "nonsense"}, "type", "No job has this type"),
        ({"queue": "cold"}, "queue", "choose one of hot"),
    ],
)
def test_errors_stand_beside_fields_and_input_stays(
    service: Service, ana: Visitor, changes: dict[str, str], field: str, reply: str
) -> None:
    answer = send(ana, "/schedules", **changes)
    assert answer.status_code == 400
    assert f'id="wrong-{field}"' in answer.text
    assert reply in answer.text
    assert "<b>Mars" not in answer.text
    assert stored(service) == []
    if "cron" not in changes:
        assert 'name="at" value="03:00"' in answer.text


def test_form_chooses_the_queue(service: Service, ana: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Greetings, "other_queues", ("cold",))
    send(ana, "/schedules", queue="cold")
    assert service.rows("SELECT queue FROM job_schedules") == [("cold",)]
    assert '<option value="cold" selected>' in ana.get("/schedules/nightly?branch=north").text
    assert "· cold</small>" in ana.get("/schedules?branch=north").text
    send(ana, "/schedules/nightly", queue="")
    assert service.rows("SELECT queue FROM job_schedules") == [(None,)]


def test_duplicate_name_is_refused_and_foreign_is_hidden(service: Service, ana: Visitor) -> None:
    send(ana, "/schedules")
    assert "is taken: choose another name" in send(ana, "/schedules", cron="1 1 * * *").text
    eve = Visitor(service.app)
    eve.sign_in(None, "north")
    assert "nightly" not in eve.get("/schedules?branch=north").text
    assert eve.get("/schedules/nightly?branch=north").status_code == 404
    for path in ("", "/pause", "/remove"):
        assert send(eve, f"/schedules/nightly{path}").status_code == 404
    assert send(eve, "/schedules").status_code == 400
    assert stored(service) == [("nightly", "0 3 * * *", None, "all", 2, True)]


def test_operators_see_and_change_all_schedules(service: Service, ana: Visitor) -> None:
    send(ana, "/schedules")
    eva, reader = Visitor(service.app), Visitor(service.app)
    eva.sign_in(None, "north", roles=["operator"])
    reader.sign_in(None, "north", roles=["reader"])
    page = eva.get("/admin/schedules").text
    assert 'href="/schedules/nightly?branch=north"' in page
    assert send(eva, "/schedules/nightly", cron="0 5 * * *").status_code == 303
    assert stored(service)[0][1] == "0 5 * * *"
    assert "<textarea" not in reader.get("/schedules/nightly?branch=north").text
    assert send(reader, "/schedules/nightly/pause").status_code == 403
    assert ana.get("/admin/schedules").status_code == 403
    of_no_company = Visitor(service.app)
    of_no_company.sign_in("eva", roles=["operator"], companies=[])
    nothing = of_no_company.get("/admin/schedules")
    assert (nothing.status_code, "nightly" in nothing.text) == (200, False)
