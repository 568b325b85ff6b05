"""Guards of uploads, of what jobs write for people, and of imports and reports over them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WEB = "tests/integration/web/test_files.py"
JOBS = "tests/integration/files/test_job_files.py"
OWN = "promise 5: nobody reads what is another's"

MUTANTS = (
    Mutant(
        "a link to a file needs no signature",
        OWN,
        "turno/web/api/files.py",
        "    if not link.signed(stated.signature, secret()):\n",
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
        "an item of a group that broke stays undone",
        "promise 2: what a job does happens exactly once",
        "turno/runner/items.py",
        '        if group.state == "broken":\n',
        "        if False:\n",
        (f"{JOBS}::test_a_group_is_written_together_and_each_item_has_its_entry",),
    ),
)
