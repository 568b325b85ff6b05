"""The documents agree with the files: code, tables, links, commands and settings."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import pytest

from tax_authority.authorising.settings import VARIABLES
from tests.reference.commands import OF_THE_CHECKOUT
from turno.client import Status
from turno.commands.main import main
from turno.settings import ALSO_UNPREFIXED, PREFIX, Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN_FILE = re.compile(r"<!-- file: (\S+) -->\n```\w*\n(.*?)```", re.DOTALL)
OUR_FILE = re.compile(
    r"(?<![\w/.])(?:app|turno|cli|handlers|imports|nemesis|reports|tax_authority|tenants|tests|benchmarks)(?:/\w+)+\.(?:py|sql)\b"
)
CODE = re.compile(r"```.*?```|`[^`\n]+`", re.DOTALL)
# Names in capitals outside our settings: variables of tests, launchers and other programs.
UNPREFIXED = {name.upper() for name in ALSO_UNPREFIXED}
OTHER_NAMES = {
    "TURNO_CRASH_AT",
    "PG_BIN",
    "TURNO_LIMITS",
    "SSL_CERT_FILE",
    "DJANGO_SETTINGS_MODULE",
    "INSTALLED_APPS",
    "SHARED_APPS",
    "AUTHORISATION_RUNS",
    "AUTHORITY_RUNS",
    # The example's own.
    *VARIABLES,
    "PR_SET_PDEATHSIG",
    "DUMMY",
    "LC_MESSAGES",
    "ERP_DATABASE_URL",
    "ERP_SECRET_KEY",
    "PHP_EOL",
    "ATTR_ERRMODE",
    "ERRMODE_EXCEPTION",
    "JSON_THROW_ON_ERROR",
    # Of RabbitMQ's image.
    "RABBITMQ_DEFAULT_PASS",
    # OpenTelemetry's own.
    "OTEL_BSP_SCHEDULE_DELAY",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
    "OTEL_LOGS_EXPORTER",
    "OTEL_TRACES_SAMPLER",
    "OTEL_TRACES_SAMPLER_ARG",
    # Flask's and WSGI's own.
    "APPLICATION_ROOT",
    "MAX_CONTENT_LENGTH",
    "SCRIPT_NAME",
}

every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def between(page: Path, name: str) -> str:
    (result,) = re.findall(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", text_of(page), re.DOTALL)
    return str(result)


def code_in(page: Path) -> Iterator[str]:
    return (match.group() for match in CODE.finditer(text_of(page)))


@every_page
def test_shown_file_equals_its_source(page: Path) -> None:
    for name, shown in SHOWN_FILE.findall(text_of(page)):
        assert shown == (ROOT / name).read_text(encoding="utf-8"), f"{page.name} shows an older {name}"


def test_the_readme_shows_a_handler_and_the_guide_its_test() -> None:
    shown = [
        {name for name, _ in SHOWN_FILE.findall(text_of(ROOT / page))}
        for page in ("README.md", "docs/testing-handlers.md")
    ]
    assert shown[0] == {"tests/raise_prices.py"}
    assert "tests/acceptance/test_raise_prices.py" in shown[1]


def test_the_readme_stays_short() -> None:
    assert len(text_of(ROOT / "README.md").splitlines()) <= 200


def test_documented_fixtures_equal_the_kit() -> None:
    table = (ROOT / "docs/testing-handlers.md").read_text().partition("| fixture |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    kit = (ROOT / "turno/testing/plugin.py").read_text()
    assert named == re.findall(r"@pytest.fixture\ndef (\w+)\(", kit)


@every_page
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text_of(page))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@every_page
def test_every_file_named_exists(page: Path) -> None:
    named = {name for code in code_in(page) for name in OUR_FILE.findall(code)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=str)
def test_every_command_named_exists(page: Path) -> None:
    context = click.Context(main)
    for code in code_in(page):
        for name, further in re.findall(r"(?<![\w/.-])(?<!from )turno ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", code):
            command = main.get_command(context, name)
            assert command is not None, f"{page.name} names `turno {name}`"
            if isinstance(command, click.Group) and further:
                assert command.get_command(context, further), f"{page.name} names `turno {name} {further}`"


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "decisions"], ids=str)
def test_every_setting_named_exists(page: Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.__dataclass_fields__} | UNPREFIXED | OTHER_NAMES
    assert {name for code in code_in(page) for name in re.findall(r"\b[A-Z]+(?:_[A-Z]+)+\b", code)} - known == set()


@every_page
def test_a_time_of_day_is_written_in_iso_8601_with_its_zone(page: Path) -> None:
    times = re.findall(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*", text_of(page))
    assert [time for time in times if not re.match(r"[\d-]{10}T[\d:.]+(Z|[+-]\d\d:\d\d)", time)] == []


def test_commands_write_times_by_one_function() -> None:
    commands = [*(ROOT / "turno/commands").rglob("*.py"), *(ROOT / "turno/capabilities").glob("*/command*.py")]
    forms = re.compile(r"strftime|\bisoformat\(\)|:%[A-Za-z]")
    result = [(file.name, form) for file in commands for form in forms.findall(file.read_text(encoding="utf-8"))]
    # `turno schedule next` also shows the zone of the schedule.
    assert result == [("command.py", "isoformat()")]


def test_the_library_refers_to_no_file_of_this_repository_alone() -> None:
    files = [file for ending in ("py", "sql", "html", "js", "po") for file in (ROOT / "turno").rglob(f"*.{ending}")]
    absent = re.compile(
        r"\b(?:docs|deploy|tests|benchmarks|nemesis|examples)/[\w/-]+\.\w+|\bDESIGN\.md|\b0\d{3}-[a-z-]+"
    )
    assert [(file.name, name) for file in files for name in absent.findall(file.read_text(encoding="utf-8"))] == []


def test_settings_of_the_tax_authority_are_documented() -> None:
    page = text_of(ROOT / "docs" / "examples.md")
    assert [name for name in VARIABLES if f"`{name}`" not in page] == []


def test_every_page_stands_in_the_navigation() -> None:
    pages = {page.relative_to(ROOT).with_suffix("").as_posix() for page in PAGES} | {"CHANGELOG"}
    named = {"docs/index"}
    for index in ("docs/index.md", "docs/decisions/index.md"):
        for lines in re.findall(r"```\{toctree\}\n(?::[^\n]*\n)*\n(.*?)```", text_of(ROOT / index), re.DOTALL):
            for line in lines.splitlines():
                target = re.sub(r".*<(.*)>", r"\1", line)
                named.add((ROOT / index).parent.joinpath(target).resolve().relative_to(ROOT).as_posix())
    assert pages == named, "name each page in docs/index.md under its reader, a decision in docs/decisions/index.md"


def test_a_decision_begins_with_its_number() -> None:
    decisions = (ROOT / "docs" / "decisions").glob("0*.md")
    assert [page.name for page in decisions if not text_of(page).startswith(f"# {page.name[:4]} ")] == []


def test_decision_has_date_and_status() -> None:
    decisions = (ROOT / "docs" / "decisions").glob("0*.md")
    line = re.compile(r"^# .+\n\nDate: \d{4}-\d\d-\d\d\. Status: (accepted|replaced by \[)", re.MULTILINE)
    assert [page.name for page in decisions if not line.match(text_of(page))] == []


def test_docs_have_at_most_twenty_pages() -> None:
    assert len(list((ROOT / "docs").glob("*.md"))) <= 20


def test_nouns_of_commands_and_states_are_defined() -> None:
    defined = {term.lower() for term in re.findall(r"\*\*([\w ]+)\*\*", text_of(ROOT / "docs" / "concepts.md"))}
    context = click.Context(main)
    commands = set(main.list_commands(context)) - OF_THE_CHECKOUT - {"db"}
    nouns = {name for name in commands if isinstance(main.get_command(context, name), click.Group)}
    assert (nouns | set(get_args(Status)) - {"accepted"}) - defined == set()
