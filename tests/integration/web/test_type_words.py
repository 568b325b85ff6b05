"""A handler's texts for its type: on the pages, in each language, with the submission and the result."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from handlers import LOCALE
from tests.greetings import Greetings, GreetingsPayload, valid_body
from tests.portuguese import with_portuguese
from tests.visitor import Visitor
from turno.jobs.handler import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from flask import Flask

    from tests.api import Service


class SpokenGreetings(Greetings):
    words: ClassVar = {
        "en": {
            "title": "Seasonal greetings",
            "item": "Person",
            "items": "People",
            "kept": ("{n} greeted", "{n} all greeted"),
        },
        "es": {"title": "Saludos", "error TooShy": "A {key} le da vergüenza."},
    }

    @classmethod
    def summary(cls, payload: GreetingsPayload, language: str) -> str:
        if payload.note == "clumsy":
            raise ZeroDivisionError(payload.note)
        return f"{payload.day:%B %Y}, {len(payload.greetings)} {'personas' if language == 'es' else 'people'} <b>"


@pytest.fixture(scope="module")
def spoken(service: Service) -> Flask:
    return service.build(registry=Registry.of([SpokenGreetings], locale=LOCALE))


def test_type_has_title_texts_and_payload_line(service: Service, spoken: Flask) -> None:
    ana = Visitor(spoken)
    ana.sign_in(None, "north")
    job = service.caller(user=ana.user).job()
    service.rows("INSERT INTO background_job_items (job_id, key, state, error) VALUES (%s, '7', 'failed', %s)", job,
                 '{"class": "TooShy", "message": "7 is shy", "for_users": true}')  # fmt: skip
    service.rows("INSERT INTO background_job_progress_rows (job_id, done, failed, total, revision)"
                 " VALUES (%s, 2, 1, 3, 1)"
                 " ON CONFLICT (job_id) DO UPDATE SET done = 2, failed = 1, total = 3", job)  # fmt: skip
    for path in ("/", f"/jobs/{job}"):
        page = ana.get(path).text
        assert "Seasonal greetings" in page
        assert '<p class="summary">January 2030, 2 people &lt;b&gt;</p>' in page
    page = ana.get(f"/jobs/{job}").text
    assert ">Person<" in page
    assert "7 is shy" in page, "English says nothing of this error, so its own words are shown"
    spanish = ana.get(f"/jobs/{job}?lang=es").text
    assert '<p class="summary">January 2030, 2 personas' in spanish
    assert "A 7 le da vergüenza." in spanish
    assert "Saludos" in spanish
    service.end(job, "failed")
    assert "2 all greeted" in ana.get(f"/jobs/{job}?lang=en").text


def test_page_in_a_language_of_the_application(service: Service, tmp_path: Path) -> None:
    ana = Visitor(service.build(registry=Registry.of([SpokenGreetings], locale=with_portuguese(tmp_path))))
    ana.sign_in(None, "north")
    page = ana.get("/?lang=pt")
    assert page.headers["Content-Language"] == "pt"
    assert '<html class="turno-page" lang="pt">' in page.text
    assert "Faturamento" in page.text
    assert re.search(r'<a class="language" href="[^"]*lang=es[^"]*" lang="es" hreflang="es">Español</a>', page.text)
    assert ana.get("/").headers["Content-Language"] == "pt", "the choice is kept"


def test_payload_and_result_are_shown_to_authorised_users(service: Service, spoken: Flask) -> None:
    ana, bob, operator = Visitor(spoken), Visitor(spoken), Visitor(spoken)
    ana.sign_in(None, "north")
    bob.sign_in(None, "north")
    operator.sign_in(None, "north", roles=["operator"])
    job = service.caller(user=ana.user).job(**asking("a note </pre><script>"))
    service.end(job, "completed")
    for visitor in (ana, operator):
        page = visitor.get(f"/jobs/{job}").text
        assert "&#34;note&#34;: &#34;a note &lt;/pre&gt;&lt;script&gt;&#34;" in page
        assert "&#34;greeted&#34;: 2" in page
    assert bob.get(f"/jobs/{job}").status_code == 404


def asking(note: str) -> dict[str, Any]:
    return {"payload": valid_body()["payload"] | {"note": note}}


def test_a_line_that_cannot_be_made_is_left_out(
    service: Service, spoken: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    ana = Visitor(spoken)
    ana.sign_in(None, "north")
    caller = service.caller(user=ana.user)
    clumsy, old, large = caller.job(**asking("clumsy")), caller.job(), caller.job(**asking(noise()))
    service.rows("UPDATE background_jobs SET payload = '{\"of another version\": 1}' WHERE id = %s", old)
    for job in (clumsy, old, large):
        page = ana.get(f"/jobs/{job}").text
        assert "Seasonal greetings" in page
        assert 'class="summary"' not in page
    assert "What was asked for" not in page, "large values are not read"
    assert ana.get("/").status_code == 200
    assert "no summary of a greetings: ZeroDivisionError at test_type_words.py" in caplog.text
    assert "clumsy" not in caplog.text


def noise() -> str:
    from random import Random  # noqa: PLC0415

    return Random(1).randbytes(20_000).hex()  # noqa: S311 - incompressible


def test_unused_name_of_a_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Misspelt.words: no page uses titel"):
        type("Misspelt", (Greetings,), {"words": {"en": {"titel": "Greetings"}}})
