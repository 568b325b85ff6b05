"""Guards of jobs that are split into parts: they go on once all have ended, and not before."""

from tests.mutants.mutant import Mutant

PARTS = "tests/capabilities/parts/test_parts.py"
LOOK = "turno/migrations/control/functions/promote.sql"
WAIT = "turno/migrations/tenant/functions/job_wait.sql"
FAN_OUT = "turno/capabilities/parts/sql/tenant/functions/job_fan_out.sql"
END = "turno/capabilities/parts/sql/tenant/functions/parts_end.sql"
JOIN = "issue 17, point 7: a job resumes exactly when its parts have ended"
RULES = "issue 17, point 7: parts are cancelled, fail and are retried with their job"

MUTANTS = (
    Mutant(
        "a job resumes while parts of it are open",
        JOIN,
        LOOK,
        "       OR NOT EXISTS (SELECT FROM tickets p WHERE p.awaited_by = w.job_id AND p.tenant_id = w.tenant_id);\n",
        "       OR true;\n",
        (f"{PARTS}::test_it_waits_in_no_process_and_for_the_last_one",),
    ),
    Mutant(
        "the end of a part leaves no word",
        JOIN,
        LOOK,
        "    INSERT INTO part_looks (tenant_id, job_id, early) VALUES (OLD.tenant_id, OLD.awaited_by, false);\n",
        "",
        (f"{PARTS}::test_two_parts_that_end_at_once_let_it_go_on",),
    ),
    Mutant(
        "a job that begins to wait leaves no word",
        JOIN,
        WAIT,
        "        INSERT INTO turno.part_looks (tenant_id, job_id, early)"
        " VALUES (turno.tenant_of(current_user), p_job, false);\n",
        "",
        (f"{PARTS}::test_parts_ended_before_the_wait_resume_the_job",),
    ),
    Mutant(
        "the parts of a cancelled job go on",
        RULES,
        END,
        "    PERFORM parts_cancel(NEW.id, 'the job that it is a part of has ended');\n",
        "",
        (f"{PARTS}::test_cancelled_job_cancels_its_parts",),
    ),
    Mutant(
        "a retry does the parts that are done again",
        RULES,
        FAN_OUT,
        "    FROM background_job_parts b WHERE b.job_id = before ORDER BY b.n;\n",
        "    FROM background_job_parts b WHERE false;\n",
        (f"{PARTS}::test_retry_runs_only_unfinished_work",),
    ),
    Mutant(
        "any failure wakes the job",
        RULES,
        END,
        "b.job_id = NEW.awaited_by AND b.stops)",
        "b.job_id = NEW.awaited_by)",
        (f"{PARTS}::test_failure_resumes_no_parent_without_its_request",),
    ),
    Mutant(
        "the end of a part wakes a job that waits for a person",
        "FAULTS F27: a job in review is woken by its review alone",
        LOOK,
        "AND t.state = 'parts' FOR NO KEY UPDATE",
        "AND t.state IN ('parts', 'review') FOR NO KEY UPDATE",
        (f"{PARTS}::test_the_end_of_a_part_wakes_no_job_in_review",),
    ),
    Mutant(
        "an operator's priority wakes a job that waits for its parts",
        JOIN,
        "turno/migrations/tenant/functions/jobs_command.sql",
        "CASE WHEN p_run_at IS NULL AND state IN ('parts', 'review') THEN state\n",
        "CASE WHEN false THEN state\n",
        (f"{PARTS}::test_an_operator_s_priority_does_not_wake_a_waiting_job",),
    ),
    Mutant(
        "the progress of a retried job leaves out earlier work",
        "FAULTS F22: the progress of a retried job ends complete",
        FAN_OUT,
        "progress_begin(p_job, done, p_total)",
        "progress_begin(p_job, 0, p_total)",
        (f"{PARTS}::test_progress_of_a_retried_job_ends_complete",),
    ),
    Mutant(
        "a part notifies its user",
        RULES,
        "turno/migrations/tenant/schema/0001_jobs.sql",
        "j.finished_at IS NOT NULL AND j.awaited_by IS NULL;",
        "j.finished_at IS NOT NULL;",
        (f"{PARTS}::test_job_resumes_with_the_results_of_its_parts",),
    ),
    Mutant(
        "a pool at rest learns late of jobs that an end lets run",
        JOIN,
        "turno/worker/sources/polling.py",
        "        self._usual.within(AFTER_END)\n",
        "",
        ("tests/unit/worker/test_pool_source.py::test_an_end_is_followed_by_a_look_soon",),
    ),
)
