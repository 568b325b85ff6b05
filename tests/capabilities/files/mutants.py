"""Guards of uploads and of the files that jobs write."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WEB = "tests/capabilities/files/test_api.py"
JOBS = "tests/capabilities/files/test_job_files.py"
OWN = "promise 5: no user reads another user's files"
OWN_TROUBLE = "promise 9: one tenant's trouble stays that tenant's"

MUTANTS = (
    Mutant(
        "a worker that lost its claim appends values",
        "promise 3: a worker that lost its claim can write nothing",
        "turno/capabilities/files/sql/tenant/functions/job_append.sql",
        "    PERFORM claimed_job(p_job, p_token);\n",
        "",
        ("tests/capabilities/files/test_values.py::test_a_lost_claim_appends_nothing",),
    ),
    Mutant(
        "a link to a file needs no signature",
        OWN,
        "turno/capabilities/files/uploads.py",
        ".loads(link)\n",
        ".loads_unsafe(link)[1]\n",
        (f"{WEB}::test_a_link_that_was_changed_is_refused",),
    ),
    Mutant(
        "a link to a file never ends",
        "decision 0070: a link ends after five minutes",
        "turno/capabilities/files/uploads.py",
        "    if since + LINK_SECONDS < services().clock().timestamp():\n",
        "    if False:\n",
        (f"{WEB}::test_a_link_ends",),
    ),
    Mutant(
        "a job reads another user's upload",
        OWN,
        "turno/capabilities/files/sql/tenant/functions/file_take.sql",
        "      AND user_id = (SELECT j.user_id FROM background_jobs j WHERE j.id = p_job)\n",
        "\n",
        (f"{JOBS}::test_incomplete_or_foreign_file_is_not_read",),
    ),
    Mutant(
        "the clean-up removes files that a row knows",
        "decision 78: a file with a row stays",
        "turno/capabilities/files/sql/tenant/functions/files_unknown.sql",
        "WHERE f.id = u.id AND f.in_folder",
        "WHERE false",
        ("tests/capabilities/files/test_folder.py::test_cleanup_removes_exactly_old_files_without_row",),
    ),
    Mutant(
        "a file of any size is announced",
        OWN_TROUBLE,
        "turno/capabilities/files/uploads.py",
        "    if size > settings.limits.file_mb * MEGABYTE:\n",
        "    if False:\n",
        (f"{WEB}::test_a_file_of_a_gigabyte_is_refused_before_it_is_sent",),
    ),
    Mutant(
        "files outlive their job",
        "a file goes with its job",
        "turno/migrations/tenant/functions/job_rows_forget.sql",
        "WHERE job_id = ANY (ARRAY(SELECT id FROM gone))",
        "WHERE false",
        (f"{JOBS}::test_files_are_removed_with_their_job_or_when_expired",),
    ),
    Mutant(
        "a capability that is off implements its members",
        "decision 0106: a member of a disabled capability is refused",
        "turno/capability.py",
        "            if capability not in enabled(switch):\n",
        "            if False:\n",
        ("tests/capabilities/files/test_job_files.py::test_a_job_without_the_capability_fails_with_the_remedy",),
    ),
)
