"""Guards of the runner of tasks tenant by tenant: one tenant's failure, lock or amount of work is its own."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PROMISE = "promise 9: a tenant's failure affects only that tenant"
RUNNER = "turno/maintenance/each_tenant.py"
FUNCTIONS = "turno/migrations/control/functions"
TESTS = "tests/integration/maintenance/test_each_tenant.py"

MUTANTS = (
    Mutant(
        "one tenant's refusal ends a task",
        PROMISE,
        RUNNER,
        "if isinstance(error, psycopg.Error) and unreachable(error):",
        "if isinstance(error, psycopg.Error):",
        (f"{TESTS}::test_failing_tenant_stops_no_tenant",),
    ),
    Mutant(
        "a failing tenant is tried at each turn",
        PROMISE,
        f"{FUNCTIONS}/tenant_turns.sql",
        "f.retry_at NOT BETWEEN present AND present + interval '1 day'",
        "f.retry_at IS NOT NULL",
        (f"{TESTS}::test_a_failing_tenant_is_left_out_until_its_back_off_ends",),
    ),
    Mutant(
        "a back-off does not grow",
        PROMISE,
        f"{FUNCTIONS}/tenant_turns.sql",
        "p_first * 2 ^ least(f.failures, 20)",
        "p_first",
        (f"{TESTS}::test_a_failing_tenant_is_left_out_until_its_back_off_ends",),
    ),
    Mutant(
        "a locked tenant costs a task the session's lock timeout",
        PROMISE,
        RUNNER,
        "(task.lock_timeout, task.statement_timeout),",
        '("0", task.statement_timeout),',
        (f"{TESTS}::test_a_locked_tenant_costs_one_lock_timeout",),
    ),
    Mutant(
        "a task has no budget",
        PROMISE,
        RUNNER,
        "if number and self.clock() >= over:",
        "if False:",
        (f"{TESTS}::test_a_turn_continues_behind_the_last_tenant",),
    ),
    Mutant(
        "a turn starts at the first tenant",
        PROMISE,
        f"{FUNCTIONS}/tenant_turns.sql",
        "ORDER BY n.id <= coalesce(own.position, 0), n.id",
        "ORDER BY n.id",
        (
            f"{TESTS}::test_a_turn_continues_behind_the_last_tenant",
            f"{TESTS}::test_a_tenant_that_ends_the_process_is_not_the_first_again",
        ),
    ),
    Mutant(
        "a tenant with much work has the whole budget",
        PROMISE,
        RUNNER,
        "len(refused) < task.tries and self.clock() < until:",
        "len(refused) < task.tries:",
        (f"{TESTS}::test_a_tenant_with_much_work_shares_the_turn",),
    ),
    Mutant(
        "a success keeps the record of earlier failures",
        PROMISE,
        RUNNER,
        "if refused or (finished and tenant.failures):",
        "if refused:",
        (f"{TESTS}::test_a_failing_tenant_is_left_out_until_its_back_off_ends",),
    ),
    Mutant(
        "a removed tenant's failures wait for the next tenant with its number",
        PROMISE,
        "turno/tenancy/provisioning/removal.py",
        '        admin.execute("DELETE FROM turno.tenant_failures WHERE tenant_id = %s", [tenant.id])\n',
        "",
        ("tests/capabilities/audit/test_audit.py::test_a_tenant_s_coming_and_going_and_its_keys_are_on_record",),
    ),
    Mutant(
        "a locked tenant ends the doubt of all",
        PROMISE,
        "turno/capabilities/effects/command.py",
        "            if admin.broken:\n                raise\n",
        "            raise\n",
        ("tests/integration/store/test_steering.py::test_a_locked_tenant_stops_no_doubt_of_another",),
    ),
)
