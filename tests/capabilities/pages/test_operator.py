"""An operator's pages show every user's jobs of the branch; and no page shows one job, or one button, twice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from handlers import LOCALE
from tests.visitor import Visitor
from turno.jobs.handler import Registry

if TYPE_CHECKING:
    from tests.api import Service

KNOWN = {"greetings": "tests.greetings:Greetings", "batch_invoicing": "handlers.batch_invoicing:BatchInvoicing"}


@pytest.fixture
def eva(service: Service) -> Visitor:
    operator = Visitor(service.app)
    operator.sign_in(None, "north", roles=["operator"])
    return operator


def rows(page: str) -> list[str]:
    return re.findall(r'<article class="job" id="\w+-([\w-]+)"', page)


def test_operator_home_lists_jobs_of_all_users(service: Service, eva: Visitor) -> None:
    service.rows("DELETE FROM background_jobs")
    jobs = {user: service.caller(user=user).job() for user in ("ana", "ben", eva.user)}
    elsewhere = service.caller("south").job()
    page = eva.get("/?branch=north").text
    assert rows(page) == list(jobs.values())[::-1]
    assert ">By ana</span>" in page
    assert ">By ben</span>" in page
    assert f"By {eva.user}</span>" not in page
    assert elsewhere not in page
    service.end(jobs["ben"])
    assert rows(eva.get("/?branch=north&show=failed").text) == [jobs["ben"]]
    assert "data-everyone" in page
    ana = Visitor(service.app)
    ana.sign_in("ana", "north")
    own = ana.get("/?branch=north").text
    assert rows(own) == [jobs["ana"]]
    assert "data-everyone" not in own


@pytest.mark.parametrize("types", [["greetings"], ["greetings", "batch_invoicing"]], ids=len)
def test_an_ended_job_is_shown_once_with_one_button(service: Service, types: list[str]) -> None:
    ana = Visitor(service.build(registry=Registry({name: KNOWN[name] for name in types}, locale=LOCALE)))
    ana.sign_in(None, "north")
    ended, other = (service.caller(user=ana.user).job() for _ in range(2))
    service.end(ended)
    for query in (f"job={ended}", f"job={ended}&show=failed", f"job={ended}&open={ended}", "show=failed"):
        page = ana.get(f"/?branch=north&{query}").text
        assert page.count(f'action="/jobs/{ended}/retry"') == 1
        assert rows(page).count(ended) == 1
    assert sorted(rows(ana.get(f"/?branch=north&job={ended}").text)) == [ended, other]
