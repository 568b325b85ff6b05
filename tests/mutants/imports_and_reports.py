"""Guards of imports and reports, the example's jobs over files."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OWN_TROUBLE = "promise 9: one tenant's trouble stays that tenant's"

MUTANTS = (
    Mutant(
        "an item of a group that broke stays undone",
        "promise 2: a job's effects happen exactly once",
        "turno/runner/items.py",
        '        if group.state == "broken":\n',
        "        if False:\n",
        ("tests/capabilities/files/test_job_files.py::test_a_group_is_written_together_and_each_item_has_its_entry",),
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
        "a dry run of an import keeps its rows",
        "a dry run keeps nothing",
        "imports/data_import.py",
        "force_rollback=payload.dry_run",
        "force_rollback=False",
        ("tests/integration/imports/test_data_import.py::test_dry_run_reports_everything_and_keeps_nothing",),
    ),
    Mutant(
        "a retry is offered for a lasting error",
        "point 28.8: retry only where it can succeed",
        "turno/migrations/tenant/functions/job_retry.sql",
        "i.state = 'failed' AND NOT i.error ? 'lasting');",
        "i.state = 'failed');",
        ("tests/integration/imports/test_data_import.py::test_retry_imports_what_lacked_a_customer",),
    ),
    Mutant(
        "a workbook unpacks to anything",
        OWN_TROUBLE,
        "imports/workbook.py",
        "len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > limit",
        "False",
        ("tests/unit/imports/test_files.py::test_workbooks_that_are_not_opened",),
    ),
)
