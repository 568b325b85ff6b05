"""Guards of the parent: one tenant's trouble, one error, one missing process ends neither it nor its jobs."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

WORK = "app/work"
TROUBLE = "promise 9: one tenant's trouble stays that tenant's"
CRASHES = "section 3: errors and crashes are counted apart"
ALIVE = "promise 4: a dead worker is noticed by its missing heartbeat, never by a job's age"
NO_FAULT = "section 7: an outage is nobody's fault"
ONE_TENANT = "tests/faults/test_trouble_of_one_tenant.py"
RESCUER = "tests/unit/test_rescuer.py"
LINK = "tests/unit/test_engine_link.py"
JANITOR = "tests/unit/test_janitor.py"
FENCING = "tests/integration/test_fencing.py"

MUTANTS = (
    Mutant(
        "while one rescue is refused nobody's claims are taken",
        TROUBLE,
        f"{WORK}/supervisor.py",
        "if self._engine.away or self._shutdown.asked:",
        "if self._rescuer or self._shutdown.asked:",
        (f"{ONE_TENANT}::test_while_a_tenant_s_rescue_is_refused_the_others_are_served",),
    ),
    Mutant(
        "a refused rescue is tried again at once",
        TROUBLE,
        f"{WORK}/rescuer.py",
        "        refused.due = self._clock() + wait\n",
        "",
        (f"{RESCUER}::test_a_rescue_that_is_refused_again_and_again_is_tried_ever_more_rarely",),
    ),
    Mutant(
        "the locked tables of a tenant are tried once for each of its jobs",
        TROUBLE,
        f"{WORK}/rescuer.py",
        "if other.claim.tenant_id == refused.claim.tenant_id:",
        "if False:",
        (f"{RESCUER}::test_the_locked_tables_of_a_tenant_are_tried_once_for_all_its_jobs",),
    ),
    Mutant(
        "a rescue that is always refused goes first",
        TROUBLE,
        f"{WORK}/rescuer.py",
        "key=lambda one: one.refusals",
        "key=lambda one: -one.refusals",
        (f"{RESCUER}::test_of_a_tenant_one_that_is_always_refused_holds_up_the_others_for_a_moment_only",),
    ),
    Mutant(
        "a worker that rescues many says nothing meanwhile",
        ALIVE,
        f"{WORK}/rescuer.py",
        "if self._engine.away or self._clock() > until:",
        "if self._engine.away:",
        (f"{RESCUER}::test_many_that_take_long_leave_time_to_say_that_the_worker_lives",),
    ),
    Mutant(
        "what is owed to a removed tenant is owed for ever",
        TROUBLE,
        f"{WORK}/rescuer.py",
        "if error.sqlstate in TENANT_GONE:",
        "if False:",
        (f"{RESCUER}::test_what_is_owed_to_a_tenant_that_is_gone_is_dropped_and_said[InvalidSchemaName]",),
    ),
    Mutant(
        "a rescue waits for a lock as long as any statement",
        TROUBLE,
        "app/store/recovery.py",
        'LOCK_TIMEOUT = "200ms"',
        'LOCK_TIMEOUT = "5s"',
        (f"{FENCING}::test_a_rescue_waits_for_a_session_that_it_cannot_end",),
    ),
    Mutant(
        "a worker that ends unexpectedly has its jobs counted as crashed",
        CRASHES,
        f"{WORK}/supervisor.py",
        "            ending.callback(self._hand_back)\n",
        "",
        (f"{ONE_TENANT}::test_a_worker_that_ends_unexpectedly_hands_its_jobs_back_uncounted",),
    ),
    Mutant(
        "a standby's refusal is no outage",
        NO_FAULT,
        "app/store/outage.py",
        '    return state.startswith(("08", "57P")) or state == psycopg.errors.ReadOnlySqlTransaction.sqlstate\n',
        '    return state.startswith(("08", "57P"))\n',
        (f"{LINK}::test_only_a_server_that_cannot_be_asked_is_an_outage[25006-True]",),
    ),
    Mutant(
        "a server that is away is asked all the time",
        NO_FAULT,
        f"{WORK}/engine.py",
        "        if self.away:\n",
        "        if False:\n",
        (f"{LINK}::test_while_the_server_is_away_it_is_not_asked_and_then_again",),
    ),
    Mutant(
        "a process for maintenance that cannot be had ends the worker",
        TROUBLE,
        f"{WORK}/janitor.py",
        "        except OSError as error:\n",
        "        except ProcessLookupError as error:\n",
        (f"{JANITOR}::test_without_a_process_to_be_had_the_next_round_tries_again",),
    ),
    Mutant(
        "a round that has ended is reaped twice",
        TROUBLE,
        f"{WORK}/janitor.py",
        "            self.pid = None\n        return self.pid is not None\n",
        "            return False\n        return self.pid is not None\n",
        (f"{JANITOR}::test_without_a_process_to_be_had_the_next_round_tries_again",),
    ),
)
