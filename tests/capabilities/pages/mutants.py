"""Guards of the tenant's pages: the visible jobs, and their texts."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PAGES = "tests/capabilities/pages/test_pages.py"
GREEN = "tests/integration/web/test_green.py"
WORDED = "tests/integration/web/test_type_words.py"
HONEST = "section 9: see which orders failed; a batch is done only if nothing of it failed"
OPERATORS = "section 8: no SQL in an answer; a database's own words are for operators"
OWN_TROUBLE = "promise 9: pages read every value that a tenant stores"

MUTANTS = (
    Mutant(
        "a form is sent without a connection",
        "section 9: offline, a press changes nothing and the page says so",
        "turno/web/static/frame.js",
        "  if (await reachable()) {\n",
        "  if (form) {\n",
        ("tests/capabilities/pages/test_browser.py::test_press_without_network_keeps_page_and_selection",),
    ),
    Mutant(
        "a database's own words are shown to every user",
        OPERATORS,
        "turno/capabilities/pages/job_page.py",
        "reason_text = of_job if visit.scope.principal.operator else of_event",
        "reason_text = of_job",
        (f"{PAGES}::test_reasons_are_spanish_and_raw_text_is_for_operators",),
    ),
    Mutant(
        "a page shows other users' jobs",
        "section 8: foreign and unknown ids give the same 404",
        "turno/capabilities/pages/job_page.py",
        "visit.scope.visible_user)",
        "None)",
        (f"{PAGES}::test_user_neither_sees_nor_changes_foreign_jobs",),
    ),
    Mutant(
        "one failed of many is too narrow to be seen",
        HONEST,
        "turno/capabilities/pages/templates/turno/job_parts.html",
        "{{ 6 if p.failed else 0 }}",
        "0",
        (f"{GREEN}::test_one_failed_of_five_hundred_is_seen_in_the_bar",),
    ),
    Mutant(
        "a handler's faulty line ends the page that shows it",
        OWN_TROUBLE,
        "turno/capabilities/pages/job_view.py",
        "    except Exception as error:  # noqa: BLE001",
        "    except UnicodeError as error:  # noqa: BLE001",
        (f"{WORDED}::test_a_line_that_cannot_be_made_is_left_out",),
    ),
)
