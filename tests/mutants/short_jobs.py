"""Guards of turns: several short jobs for one child, of which none may suffer for another."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SUPERVISOR = "turno/worker/supervisor.py"
STOP = "turno/runner/shared_state.py"
TURNS = "tests/acceptance/test_short_jobs.py"
LENGTHS = "tests/unit/worker/test_batch_sizer.py"
ALONE = "decision 0030: a dead or overdue job harms no neighbour"
NOT_LONG = "decision 0030: no job waits for long"

MUTANTS = (
    Mutant(
        "a busy machine makes batches smaller, and claims more",
        "alone at least 0.6 x the floor",
        "turno/worker/sources/polling.py",
        "max(TARGET_SECONDS, CLAIMS_PER_BATCH * self._claim)",
        "TARGET_SECONDS",
        (f"{LENGTHS}::test_slow_claims_enlarge_batches_within_a_bound",),
    ),
    Mutant(
        "a slow claim keeps other tenants waiting for as long as it likes",
        "no other tenant waits for more than a group",
        "turno/worker/sources/polling.py",
        "min(LONGEST_SECONDS, max(",
        "max(0, max(",
        (f"{LENGTHS}::test_slow_claims_enlarge_batches_within_a_bound",),
    ),
    Mutant(
        "jobs wait behind a long one",
        NOT_LONG,
        SUPERVISOR,
        "if monotonic() >= child.call_back_at:",
        "if False:",
        (f"{TURNS}::test_behind_a_long_one_they_go_to_another_child",),
    ),
    Mutant(
        "a job that no child here reaches is kept from other workers",
        NOT_LONG,
        "turno/worker/distributor.py",
        "(at_once or monotonic() >= self._give_up_at)",
        "at_once",
        ("tests/acceptance/test_short_jobs.py::test_behind_a_long_one_they_go_to_another_worker",),
    ),
    Mutant(
        "a dead child takes along jobs that it had not begun",
        ALONE,
        "turno/worker/rescuer.py",
        "        if code in WAITS:  # no handler was called",
        "        if True:  # no handler was called",
        ("tests/unit/worker/test_rescuer.py::test_batch_rescue_blames_running_job_and_returns_others",),
    ),
    Mutant(
        "a child that is worn out continues to the end of its turn",
        "section 7: children are replaced after a number of jobs, or beyond a size of memory",
        "turno/runner/child_main.py",
        "batch[: max(1, self._config.jobs - self._jobs_run)]",
        "batch",
        ("tests/acceptance/test_short_jobs.py::test_worn_out_child_leaves_the_rest_of_its_batch",),
    ),
    Mutant(
        "jobs before a child are given back as if unclaimed",
        "decision 0030: a job is a child's or its parent's, never both's",
        SUPERVISOR,
        "            known |= child.tokens\n",
        "            known |= {claim.token for claim in child.claims[:1]}\n",
        ("tests/unit/worker/test_returned_tickets.py::test_jobs_behind_the_first_of_a_batch_are_known",),
    ),
    Mutant(
        "the time limit of one job ends the next",
        ALONE,
        "turno/runner/shared_state.py",
        "self._words[REASON] != ord(self.TIME_LIMIT) or self._meant",
        "True",
        ("tests/unit/runner/test_shared_state.py::test_time_limit_of_ended_attempt_spares_the_next[job]",),
    ),
    Mutant(
        "a lone job waits until it is known that there is no other",
        "PERFORMANCE section 2: pick-up",
        "turno/worker/sources/polling.py",
        "slots = free if timer.plenty else 1",
        "slots = free",
        ("tests/unit/worker/test_pool_source.py::test_source_claims_one_after_silence_then_all_free",),
    ),
)
