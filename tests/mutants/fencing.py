"""Guards of the claim: whoever lost it, or ended the transaction behind our back, writes nothing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/integration/store/test_fencing.py"
PROMISE = "promise 3: a worker that lost its claim can write nothing"
ONCE = "promise 2: what a job does in our database happens exactly once"
ZOMBIE = f"{TESTS}::test_a_zombie_writes_nothing_while_another_attempt_runs"
OUTSIDE = f"{TESTS}::test_work_outside_the_job_s_transaction_is_refused_by_name"

HOLD = "    PERFORM claim_hold(p_job, p_token);\n"
CHECK = "    PERFORM assert_attempt(p_token);\n"
HELD = "PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token FOR UPDATE;\n"

MUTANTS = (
    Mutant(
        "start does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/job_start.sql",
        "    PERFORM claim_hold(p_job, p_token);\n",
        "",
        (f"{TESTS}::test_who_lost_its_claim_does_not_start_to_fail",),
    ),
    Mutant(
        "claim_hold does not compare the token",
        PROMISE,
        "turno/migrations/tenant/functions/claim_hold.sql",
        HELD + "    IF NOT FOUND THEN\n        RAISE",
        HELD.replace("AND token = p_token ", "") + "    IF NOT FOUND THEN\n        RAISE",
        (f"{ZOMBIE}[fail]",),
    ),
    Mutant(
        "progress does not compare the token",
        PROMISE,
        "turno/migrations/tenant/functions/job_progress.sql",
        "WHERE job_id = p_job AND token = p_token;",
        "WHERE job_id = p_job AND state = 'running';",
        (f"{ZOMBIE}[progress]",),
    ),
    Mutant(
        "items do not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/job_items.sql",
        HOLD + "    INSERT INTO background_job_items",
        "    INSERT INTO background_job_items",
        (f"{ZOMBIE}[items]",),
    ),
    Mutant(
        "a checkpoint does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/job_checkpoint.sql",
        HOLD + "    INSERT INTO background_job_checkpoints",
        "    INSERT INTO background_job_checkpoints",
        (f"{ZOMBIE}[checkpoint]",),
    ),
    Mutant(
        "completion does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/jobs_finish.sql",
        "t.job_id = ANY (p_jobs) AND t.token",
        "t.job_id = ANY (p_jobs) OR t.token",
        ("tests/integration/store/test_fencing.py::test_a_zombie_writes_nothing_while_another_attempt_runs[complete]",),
    ),
    Mutant(
        "an end without success does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/attempt_close.sql",
        "    PERFORM claim_hold(p_job, p_token);\n",
        "",
        (f"{ZOMBIE}[fail]", f"{ZOMBIE}[release]", f"{ZOMBIE}[cancel]"),
    ),
    Mutant(
        "the attempt's mark is not compared",
        ONCE,
        "turno/migrations/tenant/functions/assert_attempt.sql",
        "IF current_setting('turno.attempt', true) IS DISTINCT FROM p_token::text THEN",
        "IF false THEN",
        (f"{OUTSIDE}[items]",),
    ),
    Mutant(
        "a checkpoint does not ask for the attempt's mark",
        ONCE,
        "turno/migrations/tenant/functions/job_checkpoint.sql",
        CHECK + HOLD + "    INSERT INTO background_job_checkpoints",
        HOLD + "    INSERT INTO background_job_checkpoints",
        (f"{OUTSIDE}[checkpoint]",),
    ),
    Mutant(
        "completion does not ask for the attempt's mark",
        ONCE,
        "turno/migrations/tenant/functions/jobs_finish.sql",
        "    PERFORM assert_attempt(p_mark);\n",
        "    PERFORM commit_durably();\n",
        (
            "tests/integration/store/test_fencing.py::test_work_outside_the_job_s_transaction_is_refused_by_name[complete]",
        ),
    ),
)
