"""Guards of the claim: whoever lost it, or ended the transaction behind our back, writes nothing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/integration/store/test_fencing.py"
PROMISE = "promise 3: a worker that lost its claim can write nothing"
ONCE = "promise 2: what a job does in our database happens exactly once"
ZOMBIE = f"{TESTS}::test_a_zombie_writes_nothing_while_another_attempt_runs"
OUTSIDE = f"{TESTS}::test_work_outside_the_job_s_transaction_is_refused_by_name"

HOLD = "    PERFORM claim_hold(p_job, p_token);\n"
CHECK = "    PERFORM attempt_check(p_token);\n"
HELD = "PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token FOR UPDATE;\n"

MUTANTS = (
    Mutant(
        "claim_hold does not compare the token",
        PROMISE,
        "turno/migrations/tenant/functions/claim_hold.sql",
        HELD + "    IF NOT FOUND THEN\n        RAISE",
        HELD.replace("AND token = p_token ", "") + "    IF NOT FOUND THEN\n        RAISE",
        (f"{ZOMBIE}[fail]",),
    ),
    Mutant(
        "start does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/job_start.sql",
        "WHERE t.job_id = p_job AND t.token = p_token FOR UPDATE;",
        "WHERE t.job_id = p_job FOR UPDATE;",
        (f"{TESTS}::test_a_zombie_does_not_start_a_job_that_another_has_claimed",),
    ),
    Mutant(
        "a job may be started twice",
        PROMISE,
        "turno/migrations/tenant/functions/job_start.sql",
        "WHERE j.id = p_job AND j.status = 'pending'\n",
        "WHERE j.id = p_job\n",
        (f"{TESTS}::test_a_claim_is_started_once",),
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
        "turno/migrations/tenant/functions/job_complete.sql",
        "WHERE t.job_id = p_job AND t.token = p_token RETURNING",
        "WHERE t.job_id = p_job RETURNING",
        (f"{ZOMBIE}[complete]",),
    ),
    Mutant(
        "failure does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/job_fail.sql",
        HOLD + "    PERFORM attempt_end(p_job, 'error', p_error);",
        "    PERFORM attempt_end(p_job, 'error', p_error);",
        (f"{ZOMBIE}[fail]",),
    ),
    Mutant(
        "release does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/job_release.sql",
        HOLD + "    PERFORM attempt_end(p_job, p_outcome, NULL);",
        "    PERFORM attempt_end(p_job, p_outcome, NULL);",
        (f"{ZOMBIE}[release]",),
    ),
    Mutant(
        "abandoning does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/job_abandon.sql",
        HOLD + "    PERFORM attempt_end(p_job, 'cancelled', NULL);",
        "    PERFORM attempt_end(p_job, 'cancelled', NULL);",
        (f"{ZOMBIE}[abandon]",),
    ),
    Mutant(
        "the attempt's mark is not compared",
        ONCE,
        "turno/migrations/tenant/functions/attempt_check.sql",
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
        "turno/migrations/tenant/functions/job_complete.sql",
        CHECK,
        "",
        (f"{OUTSIDE}[complete]",),
    ),
)
