"""Every message is there in every language, with the same places to fill, compiled, and the pages use no other."""

from __future__ import annotations

import gettext
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from string import Formatter
from typing import get_args

import pytest
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po

from handlers import LOCALE, build_registry
from handlers.batch_invoicing import BatchInvoicing
from tests.portuguese import with_portuguese
from turno.capabilities.admin.overview import sentence
from turno.capabilities.pages.home import SHOWN
from turno.capability import installed
from turno.catalogue import OWN, catalogues
from turno.errors import InvalidSettings
from turno.jobs.handler import Registry
from turno.jobs.label import Label
from turno.runner import exit_codes
from turno.store.operator.troubles import Trouble
from turno.web.pages.localizer import Localizer, of_error, of_event, of_job
from turno.web.pages.page_routes import Notice
from turno.worker import crash_reasons

ROOT = Path(__file__).resolve().parents[3]
PAGES = ROOT / "turno" / "web"
NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
OF_CAPABILITIES = [folder for capability in installed() if (folder := capability.folder("locale")) is not None]
SOURCES = {folder: sorted(folder.rglob("*.po")) for folder in (OWN, LOCALE, *OF_CAPABILITIES)}
LANGUAGES = ("en", "es")
EN, ES = (Localizer(language, NOW, catalogues(build_registry())) for language in LANGUAGES)
BARE = catalogues(Registry({}))


def messages_of(source: Path) -> dict[str, str | tuple[str, str]]:
    """A catalogue's messages in its source."""
    result: dict[str, str | tuple[str, str]] = {}
    for message in read_po(BytesIO(source.read_bytes())):
        match message.id, message.string:
            case str(name), str(text) if name:
                result[name] = text
            case (name, _), (singular, plural):
                result[name] = singular, plural
    return result


def all_messages() -> dict[str, dict[str, str | tuple[str, str]]]:
    result: dict[str, dict[str, str | tuple[str, str]]] = {}
    for language in LANGUAGES:
        for folder in SOURCES:
            for name, text in messages_of(folder / language / "LC_MESSAGES" / "messages.po").items():
                result.setdefault(name, {})[language] = text
    return result


WORDS = all_messages()


@pytest.mark.parametrize(
    "source", [source for result in SOURCES.values() for source in result], ids=lambda path: str(path.relative_to(ROOT))
)
def test_compiled_catalogue_equals_its_source(source: Path) -> None:
    fresh = BytesIO()
    write_mo(fresh, read_po(BytesIO(source.read_bytes())))
    compiled = (fresh.getvalue(), source.with_suffix(".mo").read_bytes())
    catalogues = [vars(gettext.GNUTranslations(BytesIO(content)))["_catalog"] for content in compiled]
    for catalogue in catalogues:
        del catalogue[""]  # the header has the time at which it was compiled
    assert catalogues[0] == catalogues[1], f"run `pybabel compile -d {source.parents[3]}`"


@pytest.mark.parametrize("folder", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_language_has_the_same_messages(folder: Path) -> None:
    assert [source.parts[-3] for source in SOURCES[folder]] == sorted(LANGUAGES)
    first, *others = (set(messages_of(source)) for source in SOURCES[folder])
    assert all(other == first for other in others)


def test_application_texts_come_before_turno() -> None:
    bare = Localizer("en", NOW, BARE)
    assert (bare.say("home"), EN.say("home")) == ("Jobs", "Invoicing")
    assert bare.say("skip") == EN.say("skip") == "Skip to the content"
    assert not bare.known("type batch_invoicing")
    assert EN.say("orders count", n=1234) == "1,234 orders"


def test_trouble_of_many_tenants_is_one_sentence_more() -> None:
    values = {"tenant": "suc0007", "n": 12}
    trouble = Trouble("the English text", None, "turno tenant shares", "long wait", values, others=999)
    assert sentence(trouble, EN) == "suc0007 waits for its turn with 12 jobs. 999 other tenants have the same trouble."
    assert sentence(trouble, ES).endswith("con 12 trabajos. Otras 999 sucursales tienen el mismo problema.")
    assert sentence(trouble._replace(others=0), EN) == "suc0007 waits for its turn with 12 jobs."


def test_application_without_english_messages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="has no English messages: add the folder en"):
        catalogues(Registry({}, locale=tmp_path))


def test_language_that_is_not_compiled_is_refused(tmp_path: Path) -> None:
    for language in ("en", "pt"):
        (tmp_path / language / "LC_MESSAGES").mkdir(parents=True)
    with pytest.raises(InvalidSettings, match="en is not compiled: run `pybabel compile -d"):
        catalogues(Registry({}, locale=tmp_path))


def test_application_adds_portuguese(tmp_path: Path) -> None:
    pt = Localizer("pt", NOW, catalogues(Registry.of([BatchInvoicing], locale=with_portuguese(tmp_path))))
    assert (pt.say("home"), pt.say("notice replayed")) == ("Faturamento", "Isto já tinha começado; nada foi repetido.")
    assert pt.say("skip") == "Skip to the content"  # English, where Portuguese lacks the message
    assert (pt.number(Decimal("1234.50")), pt.date(NOW)) == ("1.234,50", "21 de nov. de 2026")
    assert pt.say("orders count", n=1) == "1 pedido"
    assert pt.other_languages == [("en", "English"), ("es", "Español")]
    assert EN.other_languages == [("es", "Español")]


def placeholders(message: str | tuple[str, str]) -> set[str]:
    texts = (message,) if isinstance(message, str) else message
    return {name for text in texts for _, name, _, _ in Formatter().parse(text) if name}


@pytest.mark.parametrize("phrase", WORDS)
def test_phrase_has_the_same_fields_in_every_language(phrase: str) -> None:
    translations = WORDS[phrase]
    assert set(translations) == set(LANGUAGES)
    assert len({isinstance(value, tuple) for value in translations.values()}) == 1
    if not phrase.startswith(("reason ", "error ")):  # a translation may repeat the error's own words
        assert len({frozenset(placeholders(value) - {"n"}) for value in translations.values()}) == 1


def test_the_pages_use_no_phrase_that_is_missing() -> None:
    ours = [*(PAGES / "templates").rglob("*.html"), *(PAGES / "pages").glob("*.py")]
    theirs = [file for kind in ("*.html", "*.py") for file in (ROOT / "turno" / "capabilities").rglob(kind)]
    files = [*ours, *theirs, *(ROOT / "app" / "templates").glob("*.html"), *(ROOT / "app").glob("*.py")]
    used = {name for file in files for name in re.findall(r"\bsay\(\s*['\"]([\w ]+)['\"]\s*[,)]", file.read_text())}
    assert len(used) > 50
    assert used - set(WORDS) == set()


def test_every_state_notice_and_filter_has_its_words() -> None:
    wanted = {
        *get_args(Label),
        *(f"notice {notice}" for notice in get_args(Notice) if notice),
        *(f"show {shown}" for shown in SHOWN),
    }
    assert wanted - set(WORDS) == set()


@pytest.mark.parametrize(
    "reason",
    [
        *("no attempts left", "failed for good", "expired", "rescheduled by its handler"),
        *("cancelled by its user", "cancelled by an operator", "cancelled on request", "its ticket was missing"),
        *(
            crash_reasons.STOPPING,
            crash_reasons.CUT_OFF,
            crash_reasons.CANCELLED,
            crash_reasons.ANOTHERS,
        ),
        *(crash_reasons.of_end(code) for code in (-9, 1, exit_codes.OUT_OF_MEMORY, exit_codes.LOGIN_REFUSED)),
        *(crash_reasons.WORKER_ENDED, *map(crash_reasons.of_end, (exit_codes.DATABASE_BUSY, exit_codes.UNRECORDED))),
        *(crash_reasons.time_limit(1800.0), crash_reasons.transaction_limit(2.5)),
    ],
)
def test_every_text_of_a_job_exists_in_every_language(reason: str) -> None:
    english, spanish = of_event(reason, EN), of_job(reason, ES)
    assert english
    assert spanish not in ("", reason, english)
    assert set(re.findall(r"[\d.]*\d", reason)) == set(re.findall(r"[\d.]*\d", spanish))


@pytest.mark.parametrize("phrase", WORDS)
def test_stored_text_may_be_any_word_of_the_pages(phrase: str) -> None:
    for stored in {phrase, phrase.partition(" ")[2], f"{phrase} 7"} - {""}:
        for localizer in (EN, ES):
            assert localizer.title(stored)
            assert of_error({"class": stored, "message": "faulty"}, localizer, operator=False)
            assert of_error({"class": "Crash", "message": stored}, localizer, operator=False)
            assert of_job(stored, localizer)


def test_job_type_has_its_name_unless_pages_have_another() -> None:
    assert (EN.title("batch_invoicing"), ES.title("batch_invoicing")) == ("Invoicing", "Facturación")
    assert (EN.title("orders"), ES.title("count")) == ("Orders", "Count")


def test_foreign_text_is_shown_unchanged() -> None:
    assert of_job("the shop is closed; 3 orders wait", ES) == "the shop is closed; 3 orders wait"
    assert of_event("duplicate key value violates unique constraint", ES) == ""
    refused = {"class": "Faulty", "message": "faulty {n}", "for_users": True}
    assert of_error(refused, ES, operator=False) == of_error(refused, ES, operator=True) == "faulty {n}"
    assert of_error({"class": "Crash", "message": "out of memory"}, ES, operator=False) == "Se quedó sin memoria."
    empty = {"class": "EmptyOrder", "message": "x", "for_users": True}
    assert of_error(empty, ES, operator=False, key="7").startswith("El pedido 7")
    assert of_error(None, ES, operator=False) == ""


@pytest.mark.parametrize("name", ["Faulty", "EmptyOrder", "Crash", "InvalidPayload"])
def test_text_without_translation_is_shown_by_reference(name: str) -> None:
    bug = {"class": name, "message": "secret {n}", "traceback": "frames", "reference": "7f3a9c01"}
    for localizer, words in ((EN, "Something unexpected"), (ES, "Pasó algo inesperado")):
        reply = of_error(bug, localizer, operator=False, key="7")
        assert reply.startswith(words)
        assert "7f3a9c01" in reply
        assert of_error(bug, localizer, operator=True) == f"{name}: secret {{n}} (7f3a9c01)"
    del bug["reference"]
    assert "secret" not in of_error(bug, EN, operator=False)


@pytest.mark.parametrize(
    ("value", "english", "spanish"),
    [
        (0, "0", "0"),
        (1234567, "1,234,567", "1.234.567"),
        (Decimal("999999999999999.90"), "999,999,999,999,999.90", "999.999.999.999.999,90"),
        (Decimal("-0.05"), "-0.05", "-0,05"),
    ],
)
def test_numbers_are_written_as_each_language_writes_them(value: int | Decimal, english: str, spanish: str) -> None:
    assert (EN.number(value), ES.number(value)) == (english, spanish)


@pytest.mark.parametrize(
    ("ago", "english", "spanish"),
    [
        (0, "just now", "recién"),
        (5, "5 seconds ago", "hace 5 segundos"),
        (60, "1 minute ago", "hace 1 minuto"),
        (3599, "59 minutes ago", "hace 59 minutos"),
        (86_400, "1 day ago", "hace 1 día"),
        (-7200, "in 2 hours", "en 2 horas"),
        (7 * 86_400, "14 Nov 2026", "14 nov 2026"),
    ],
)
def test_times_are_relative_to_now(ago: int, english: str, spanish: str) -> None:
    moment = NOW - timedelta(seconds=ago)
    assert (EN.ago(moment), ES.ago(moment)) == (english, spanish)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "under a second"), (59.9, "59 s"), (61, "1 min 1 s"), (7322, "2 h 2 min")]
)
def test_durations_use_their_largest_units(seconds: float, text: str) -> None:
    assert EN.lasting(seconds) == text
