"""Guards of the claim: an attempt without its claim or its transaction writes nothing."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/integration/store/test_fencing.py"
HOSTILE = "tests/integration/runner/batches/test_hostile_sql.py"
PROMISE = "promise 3: a worker that lost its claim can write nothing"
ONCE = "promise 2: a job's effects in our database happen exactly once"
ZOMBIE = f"{TESTS}::test_a_zombie_writes_nothing_while_another_attempt_runs"
OUTSIDE = f"{TESTS}::test_work_outside_the_job_s_transaction_is_refused_by_name"

STOP, NO_STOP = "stop boolean := claim_hold(p_job, p_token);", "stop boolean := false;"
LOCK_TICKET = "PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token FOR UPDATE;\n"

MUTANTS = (
    Mutant(
        "start does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/attempt_open.sql",
        "    PERFORM claim_hold(p_job, p_token);\n",
        "",
        (f"{TESTS}::test_lost_claim_does_not_start_to_fail",),
    ),
    Mutant(
        "claim_hold does not compare the token",
        PROMISE,
        "turno/migrations/tenant/functions/claim_hold.sql",
        LOCK_TICKET + "    IF NOT FOUND THEN\n        RAISE",
        LOCK_TICKET.replace("AND token = p_token ", "") + "    IF NOT FOUND THEN\n        RAISE",
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
        "turno/migrations/tenant/functions/job_progress.sql",
        STOP,
        NO_STOP,
        (f"{ZOMBIE}[items]",),
    ),
    Mutant(
        "a checkpoint does not ask for the claim",
        PROMISE,
        "turno/migrations/tenant/functions/job_checkpoint.sql",
        STOP,
        NO_STOP,
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
        "turno/migrations/tenant/functions/attempt_end.sql",
        "cancelled boolean := claim_hold(p_job, p_token);",
        "cancelled boolean := false;",
        (f"{ZOMBIE}[fail]", f"{ZOMBIE}[release]", f"{ZOMBIE}[cancel]"),
    ),
    *(
        Mutant(
            f"a token serves any session of the tenant that {what}",
            "the claim of an attempt that is shown as running is its session's",
            file,
            guard,
            instead,
            (f"{TESTS}::test_token_serves_only_its_session[{case}]",),
        )
        for what, file, guard, instead, case in (
            (
                "fails the job",
                "turno/migrations/tenant/functions/claim_hold.sql",
                "        PERFORM session_gone(shown.backend_pid, shown.backend_start);\n",
                "",
                "fail",
            ),
            (
                "completes it",
                "turno/migrations/tenant/functions/jobs_finish.sql",
                "    IF elsewhere <> '{}' THEN",
                "    IF false THEN",
                "complete",
            ),
        )
    ),
    Mutant(
        "an attempt keeps the number of a session that has ended",
        "section 5: a rescue ends the session of a dead attempt",
        "turno/migrations/tenant/functions/claim_hold.sql",
        "        SET backend_pid = pg_backend_pid(),\n",
        "        SET backend_pid = backend_pid,\n",
        (f"{TESTS}::test_a_session_takes_over_the_attempt_of_an_ended_one",),
    ),
    Mutant(
        "the start of the transaction is not compared",
        ONCE,
        "turno/migrations/tenant/functions/jobs_finish.sql",
        "IF p_started IS DISTINCT FROM transaction_timestamp() THEN",
        "IF false THEN",
        (OUTSIDE,),
    ),
    *(
        Mutant(
            f"{record} is written outside its transaction",
            ONCE,
            file,
            f"        self.{transaction}.prove()\n",
            "",
            (f"{HOSTILE}::test_no_record_is_written_of_work_in_another_transaction[{case}]",),
        )
        for record, file, transaction, case in (
            ("a checkpoint", "turno/runner/context.py", "transaction", "checkpoint-COMMIT"),
            ("the ledger", "turno/runner/items.py", "_attempt.transaction", "each-ROLLBACK"),
        )
    ),
    Mutant(
        "a handler continues in autocommit after a refused commit",
        ONCE,
        "turno/runner/transaction.py",
        "self._session.refusal, self._refused = REFUSED, error",
        "self._refused = error",
        (f"{HOSTILE}::test_a_refused_commit_closes_the_session",),
    ),
)
