"""Guards of uploads, of what jobs write for people, and of imports and reports over them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WEB = "tests/integration/web/test_files.py"
JOBS = "tests/integration/files/test_job_files.py"
OWN = "promise 5: nobody reads what is another's"
OWN_TROUBLE = "promise 9: one tenant's trouble stays that tenant's"

MUTANTS = (
    Mutant(
        "a link to a file needs no signature",
        OWN,
        "turno/web/api/files.py",
        "    if not link.signed(query.signature, secret()):\n",
        "    if False:\n",
        (f"{WEB}::test_a_link_that_was_changed_is_refused",),
    ),
    Mutant(
        "a link to a file never ends",
        "decision 0070: a link ends after five minutes",
        "turno/web/api/files.py",
        "    if link.until < services().clock().timestamp():\n",
        "    if False:\n",
        (f"{WEB}::test_a_link_ends",),
    ),
    Mutant(
        "a job reads another user's upload",
        OWN,
        "turno/migrations/tenant/functions/file_take.sql",
        "      AND user_id = (SELECT j.user_id FROM background_jobs j WHERE j.id = p_job);",
        ";",
        (f"{JOBS}::test_a_file_that_is_not_all_here_or_another_user_s_is_not_read",),
    ),
    Mutant(
        "the clean-up removes files that a row knows",
        "decision 78: what a row knows stays",
        "turno/migrations/tenant/functions/files_unknown.sql",
        "WHERE f.id = u.id AND f.in_folder",
        "WHERE false",
        (
            "tests/integration/files/test_files_in_a_folder.py::test_what_no_row_knows_is_removed_once_it_is_old_and_nothing_else",
        ),
    ),
    Mutant(
        "an item of a group that broke stays undone",
        "promise 2: what a job does happens exactly once",
        "turno/runner/items.py",
        '        if group.state == "broken":\n',
        "        if False:\n",
        (f"{JOBS}::test_a_group_is_written_together_and_each_item_has_its_entry",),
    ),
    Mutant(
        "a text of a report is a formula",
        "a spreadsheet takes no text for a formula",
        "reports/sheets.py",
        "if text.startswith(FORMULA) else text",
        "if False else text",
        ("tests/unit/reports/test_sheets.py::test_no_text_begins_like_a_formula",),
    ),
    Mutant(
        "a dry run of an import keeps what it read",
        "a dry run keeps nothing",
        "imports/data_import.py",
        "force_rollback=payload.dry_run",
        "force_rollback=False",
        ("tests/integration/imports/test_data_import.py::test_a_dry_run_tells_everything_and_keeps_nothing",),
    ),
    Mutant(
        "a workbook unpacks to anything",
        OWN_TROUBLE,
        "imports/workbook.py",
        "len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > limit",
        "False",
        ("tests/unit/imports/test_files.py::test_workbooks_that_are_not_opened",),
    ),
    Mutant(
        "a file of any size is announced",
        OWN_TROUBLE,
        "turno/web/files.py",
        "    if size > settings.max_file_mb * MEGABYTE:\n",
        "    if False:\n",
        (f"{WEB}::test_a_file_of_a_gigabyte_is_refused_before_it_is_sent",),
    ),
)
