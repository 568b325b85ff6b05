"""Guards of exec's own recovery: a launched worker sweeps and stays, no longer and no more of them than is of use."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

EXEC = "tests/integration/queues/test_exec_queue.py"
DROPPED = "tests/integration/queues/test_dropped_database.py"
AWAY = "test_recreated_or_unreachable_database_is_not_gone"
LINK = "tests/unit/store/test_engine_link.py"
BY_ITSELF = "with exec, recovery is on by default"
SOURCE, WORTH = "turno/worker/sources/spawned.py", "turno/migrations/control/functions/worth_staying.sql"

MUTANTS = (
    Mutant(
        "a web process alone maintains nothing",
        BY_ITSELF,
        "turno/wiring/web.py",
        "        app.extensions[MAINTENANCE].start()\n",
        "        pass\n",
        ("tests/acceptance/test_exec_alone.py::test_the_web_fires_schedules_and_is_no_alarm",),
    ),
    Mutant(
        "the web takes maintenance from resident workers",
        BY_ITSELF,
        "turno/migrations/control/functions/lease_take.sql",
        "WHERE leases.until <= now - p_after OR",
        "WHERE leases.until <= now OR",
        ("tests/integration/maintenance/test_orphans.py::test_web_maintains_without_another_process",),
    ),
    Mutant(
        "a launched worker waits for ever for a database that was dropped",
        "nothing that a test or a removed installation launched stays behind",
        "turno/wiring/workers.py",
        "gone_after=settings.dead_after_seconds",
        "gone_after=math.inf",
        (f"{DROPPED}::test_a_launched_worker_leaves_when_its_database_was_dropped",),
    ),
    Mutant(
        "a launched worker waits for ever for the server of a removed installation",
        "nothing that a test or a removed installation launched stays behind",
        "turno/store/engine_link.py",
        " and not self._removed()",
        "",
        (f"{LINK}::test_unreachable_database_is_gone_only_if_uninstalled",),
    ),
    Mutant(
        "a database that was away for long before it was missing is gone at once",
        "an outage is waited for",
        "turno/store/engine_link.py",
        "                self._no_database_since = None\n                raise\n",
        "                raise\n",
        (f"{LINK}::{AWAY}[the database system is starting up]",),
    ),
    Mutant(
        "a worker leaves although something is due soon",
        BY_ITSELF,
        WORTH,
        "OR EXISTS (SELECT FROM tickets t\n                   WHERE t.state = 'scheduled'",
        "OR EXISTS (SELECT FROM tickets t\n                   WHERE false AND t.state = 'scheduled'",
        (f"{EXEC}::test_worker_stays_for_jobs_due_within_a_minute",),
    ),
    Mutant(
        "a worker stays for a job due after its minute",
        BY_ITSELF,
        WORTH,
        "t.run_at <= now + p_at_most - p_idle_for",
        "t.run_at <= now + p_at_most",
        (f"{EXEC}::test_a_worker_stays_for_a_minute_and_no_longer",),
    ),
    Mutant(
        "every worker stays",
        BY_ITSELF,
        WORTH,
        "RETURN FOUND;",
        "RETURN true;",
        (f"{EXEC}::test_of_several_workers_the_last_to_become_idle_stays",),
    ),
    Mutant(
        "a worker at the end of its minute keeps another from staying",
        BY_ITSELF,
        WORTH,
        " OR leases.until < excluded.until",
        "",
        (f"{EXEC}::test_of_several_workers_the_last_to_become_idle_stays",),
    ),
    Mutant(
        "a worker leaves although no sweep has run",
        BY_ITSELF,
        WORTH,
        "NOT EXISTS (SELECT FROM leases l WHERE l.name = 'sweep' AND l.until > now)",
        "false",
        (f"{EXEC}::test_worker_stays_until_a_sweep_has_run",),
    ),
    Mutant(
        "a worker leaves although a second busy worker is silent",
        BY_ITSELF,
        WORTH,
        "AND (w.id IS NULL OR w.alive_at <= now - p_idle_for)",
        "AND false",
        (f"{EXEC}::test_a_worker_stays_while_another_at_work_is_silent",),
    ),
    Mutant(
        "a worker that stays keeps its place",
        "section 7: at most the limit of processes a host",
        SOURCE,
        "        self._idle_since = self.clock()\n        if self.slot is not None:\n",
        "        self._idle_since = self.clock()\n        if False:\n",
        (f"{EXEC}::test_worker_stays_for_jobs_due_within_a_minute",),
    ),
    Mutant(
        "a worker starts although one of its handlers cannot be loaded",
        "docs/writing-handlers.md: a failing import is refused at the start",
        "turno/jobs/handler.py",
        "            raise InvalidSettings(problems)\n",
        "            pass\n",
        ("tests/unit/jobs/test_named_handlers.py::test_every_type_that_cannot_be_loaded_is_named",),
    ),
    Mutant(
        "a launched worker runs no maintenance",
        BY_ITSELF,
        "turno/wiring/workers.py",
        "first = FIRST_MAINTENANCE if slot is not None else math.inf",
        "first = math.inf",
        (f"{EXEC}::test_next_job_recovers_a_killed_one_within_a_minute",),
    ),
    Mutant(
        "no worker comes for a later job",
        BY_ITSELF,
        "turno/dispatch/dispatcher.py",
        'return queue.name == "exec" and',
        "return False and",
        (f"{EXEC}::test_next_job_recovers_a_killed_one_within_a_minute",),
    ),
    Mutant(
        "every later job launches a worker",
        BY_ITSELF,
        "turno/dispatch/dispatcher.py",
        " and self._clock() >= self._hinted_at + HINT_AGAIN_SECONDS",
        "",
        ("tests/integration/web/test_api_submit.py::test_later_jobs_are_hinted_at_now_and_then",),
    ),
    Mutant(
        "the list of workers does not show that no worker sweeps",
        BY_ITSELF,
        "turno/commands/workers.py",
        "    if not (steady or wants_json()):\n",
        "    if False:\n",
        ("tests/integration/maintenance/test_unserved.py::test_backend_status_and_worker_list_report_it",),
    ),
    Mutant(
        "a command ignores --json",
        "each command prints JSON on request",
        "turno/commands/output.py",
        "return bool(context and context.meta.get(_JSON))",
        "return False",
        ("tests/unit/commands/test_every_command.py::test_a_command_prints_json_and_returns_its_status",),
    ),
)
