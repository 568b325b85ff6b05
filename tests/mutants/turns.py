"""Guards of turns: several short jobs for one child, of which none may suffer for another."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SUPERVISOR = "turno/worker/supervisor.py"
STOP = "turno/runner/stop_request.py"
TURNS = "tests/acceptance/test_turns.py"
LENGTHS = "tests/unit/worker/test_batch_sizer.py"
ALONE = "decision 0030: who dies or is overdue takes nobody along"
NOT_LONG = "decision 0030: nobody waits for long"

MUTANTS = (
    Mutant(
        "jobs wait behind a long one",
        NOT_LONG,
        SUPERVISOR,
        "if child.more and (self._shutdown.asked or monotonic() >= child.long_from):",
        "if child.more and self._shutdown.asked:",
        (f"{TURNS}::test_behind_a_long_one_they_go_to_another_child",),
    ),
    Mutant(
        "what no child here comes to is kept from other workers",
        NOT_LONG,
        SUPERVISOR,
        "(at_once or monotonic() >= self._unbegun.give_up_at)",
        "at_once",
        (f"{TURNS}::test_behind_a_long_one_they_go_to_another_worker",),
    ),
    Mutant(
        "a worker that stops keeps what no child has begun",
        NOT_LONG,
        SUPERVISOR,
        "if child.more and (self._shutdown.asked or monotonic() >= child.long_from):",
        "if child.more and monotonic() >= child.long_from:",
        (f"{TURNS}::test_a_worker_that_stops_gives_back_what_was_not_begun",),
    ),
    Mutant(
        "who dies takes along what it had not begun",
        ALONE,
        SUPERVISOR,
        "        self._unbegun.add(child.take_back())\n        code",
        "        code",
        (f"{TURNS}::test_who_dies_takes_nobody_along",),
    ),
    Mutant(
        "who dies takes along what it had begun with the end of another",
        ALONE,
        SUPERVISOR,
        "        self._rescuer.begun(child.begun)\n",
        "",
        (f"{TURNS}::test_who_dies_with_the_end_of_a_job_takes_nobody_along",),
    ),
    Mutant(
        "a child that is worn out goes on to the end of its turn",
        "section 7: children are replaced after so many jobs, or beyond so much memory",
        "turno/runner/child_main.py",
        "if not (self._following or self._worn_out()):",
        "if not self._following:",
        (f"{TURNS}::test_who_is_worn_out_leaves_the_rest_of_its_turn",),
    ),
    Mutant(
        "a session in which the next job could not be begun counts as clean",
        "section 5: between two jobs a session is made clean",
        "turno/runner/session.py",
        "        if following is None or session.begun is not None:\n            (session",
        "        if True:\n            (session",
        ("tests/integration/runner/test_tenant_sessions.py::test_a_next_job_that_somebody_else_has_is_not_begun",),
    ),
    Mutant(
        "what lies before a child is given back as if nobody had it",
        "decision 0030: a job is a child's or its parent's, never both's",
        SUPERVISOR,
        "            known |= child.tokens\n",
        "            known |= {claim.token for claim in child.claims}\n",
        (f"{TURNS}::test_a_heartbeat_leaves_what_waits_in_its_place",),
    ),
    Mutant(
        "the time limit of one job ends the next",
        ALONE,
        STOP,
        "reason != self.TIME_LIMIT or number == self._number",
        "True",
        (
            "tests/unit/runner/test_stop_request.py::test_the_time_limit_of_an_attempt_that_has_ended_is_nothing_to_the_next",
        ),
    ),
    Mutant(
        "a lone job waits until it is known that there is no other",
        "PERFORMANCE section 2: pick-up",
        "turno/worker/sources/polling.py",
        "slots = free if looks.plenty else 1",
        "slots = free",
        ("tests/unit/worker/test_pool_source.py::test_after_a_silence_it_asks_for_one_and_then_for_all_that_are_free",),
    ),
    Mutant(
        "a slow job is believed to be fast",
        NOT_LONG,
        "turno/worker/batch_sizer.py",
        "if first and seconds < COLD:",
        "if first:",
        (f"{LENGTHS}::test_a_first_that_was_slower_than_any_session_is_believed",),
    ),
)
