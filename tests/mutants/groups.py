"""Guards of groups: whoever shares a transaction has the end it would have alone."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

STARTED = "SELECT t.job_id, t.token, t.attempt FROM turno.tickets t\n            WHERE "
ENDED = "SELECT t.job_id, t.tenant_id FROM turno.tickets t\n        WHERE "
GROUP = "turno/runner/batch_executor.py"
CLAIM = "turno/migrations/control/functions/claim.sql"
TESTS = "tests/integration/runner/test_groups.py"
FAULTS = "tests/faults/test_groups_that_break.py"
EACH = "section 6: grouped types share a transaction, each job under a savepoint"
ALONE = "section 6: a ticket with crashes > 0 runs alone"
FENCED = "promise 3: a worker that lost its claim can write nothing"
ONCE = "promise 2: what a job does in our database happens exactly once"
LOSER = f"{TESTS}::test_one_that_loses_its_claim_meanwhile_writes_nothing_and_the_others_complete"
DIED = f"{TESTS}::test_a_job_that_a_worker_died_with_runs_alone"

MUTANTS = (
    Mutant(
        "a failed job of a group keeps its writes",
        EACH,
        "turno/runner/batch_transaction.py",
        '"ROLLBACK TO SAVEPOINT job"',
        '"SELECT 1"',
        (f"{TESTS}::test_what_a_failed_one_wrote_is_undone",),
    ),
    Mutant(
        "a job that a worker died with brings others along",
        ALONE,
        CLAIM,
        "CASE WHEN r.crashes > 0 THEN 1.0::float8",
        "CASE WHEN false THEN 1.0::float8",
        (DIED,),
    ),
    Mutant(
        "a job that a worker died with is brought along",
        ALONE,
        CLAIM,
        "AND (r.crashes = 0 OR r.run_at = b.head)",
        "",
        (DIED,),
    ),
    Mutant(
        "a ticket forgets that a worker died with its job",
        ALONE,
        "turno/migrations/tenant/functions/job_requeue.sql",
        "        crashes = crashes + p_crashes\n",
        "        crashes = 0\n",
        (DIED,),
    ),
    Mutant(
        "a repaired ticket forgets that a worker died with its job",
        ALONE,
        "turno/migrations/tenant/functions/job_repair.sql",
        "p_backend, j.attempt, j.crashes\n",
        "p_backend, j.attempt, 0\n",
        (f"{TESTS}::test_a_repaired_ticket_still_says_that_its_job_runs_alone",),
    ),
    Mutant(
        "a group is larger than its tenant's cap",
        "section 6: caps hold",
        CLAIM,
        "LIMIT least(v.room, ceil(v.slots * v.size))::bigint) AS g",
        "LIMIT ceil(v.slots * v.size)::bigint) AS g",
        (f"{TESTS}::test_a_cap_holds_for_groups[tenant]",),
    ),
    Mutant(
        "a group is larger than its type's cap",
        "section 6: caps hold",
        CLAIM,
        " AND coalesce(c.of_its_type <= c.type_room, true)",
        "",
        (f"{TESTS}::test_a_cap_holds_for_groups[type]",),
    ),
    Mutant(
        "a group starts what another has claimed",
        FENCED,
        "turno/migrations/tenant/functions/jobs_start.sql",
        STARTED + "t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens)",
        STARTED + "t.job_id = ANY (p_jobs)",
        (f"{TESTS}::test_one_that_lost_its_claim_before_the_start_is_left_out[running]",),
    ),
    Mutant(
        "the tokens of a group are not compared at its end",
        FENCED,
        "turno/migrations/tenant/functions/jobs_complete.sql",
        ENDED + "t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens)",
        ENDED + "t.job_id = ANY (p_jobs)",
        (f"{LOSER}[1-running]",),
    ),
    Mutant(
        "a group is completed with a claim that was lost",
        FENCED,
        "turno/migrations/tenant/functions/jobs_complete.sql",
        "IF ended < cardinality(p_jobs) THEN",
        "IF false THEN",
        (f"{LOSER}[1-running]",),
    ),
    Mutant(
        "a group is completed outside its transaction",
        ONCE,
        "turno/migrations/tenant/functions/jobs_complete.sql",
        "    PERFORM attempt_check(p_mark);\n",
        "",
        (f"{TESTS}::test_one_that_leaves_another_transaction_in_its_place_is_found_out",),
    ),
    Mutant(
        "what may have been committed is done again",
        ONCE,
        GROUP,
        "self._give_up(transaction, members, error)",
        "self._give_up(transaction, members, None)",
        (f"{TESTS}::test_one_that_ends_the_transaction_doubles_nothing[raw_commit]",),
    ),
    Mutant(
        "after a lost reply to the commit the tokens are not read again",
        "section 6: after a lost commit the token is read again",
        GROUP,
        "member.lost = member.claim.job_id not in held",
        "member.lost = False",
        (f"{TESTS}::test_after_a_lost_reply_to_the_commit_the_tokens_say_what_became_of_it[True]",),
    ),
    Mutant(
        "a job is blamed for a collision within its group",
        "section 6: a transient error is no item's fault",
        GROUP,
        "return None if transient(error) else self._executor.judge(attempt, error)",
        "return self._executor.judge(attempt, error)",
        (f"{TESTS}::test_a_collision_of_one_is_tried_again_after_the_others_have_committed",),
    ),
    Mutant(
        "an aborted transaction is kept",
        EACH,
        "turno/runner/batch_transaction.py",
        "            case TransactionStatus.INERROR:\n",
        "            case TransactionStatus.ACTIVE:\n",
        (f"{TESTS}::test_one_that_aborts_the_transaction_costs_the_others_no_second_run",),
    ),
    Mutant(
        "a stopping worker begins the next job of its group",
        "section 7: SIGTERM hands back uncounted",
        GROUP,
        "        if self._executor.stop.requested:\n",
        "        if False:\n",
        (f"{TESTS}::test_a_worker_that_is_stopping_hands_back_what_it_has_not_begun",),
    ),
    Mutant(
        "one job of a group is cancelled by force and all are blamed",
        "section 3: errors and crashes are counted apart",
        "turno/worker/rescuer.py",
        "if cause == crash_reasons.CANCELLED and len(claims) > 1:",
        "if False:",
        (f"{FAULTS}::test_one_that_is_cancelled_by_force_costs_the_others_nothing",),
    ),
    Mutant(
        "a job of a grouped type may commit by itself",
        "section 6: grouped types use neither each, checkpoint nor once",
        "turno/runner/context.py",
        "        if self._grouped:\n",
        "        if False:\n",
        (f"{TESTS}::test_what_commits_by_itself_is_refused_by_name[1-items-job.each]",),
    ),
)
