"""Guards of the reserve: one tenant's long jobs leave a child for other tenants, and short jobs never open it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SHARED = "promise 8: one busy tenant does not delay another"
BOUNDED = "decision 0040: the reserve is bounded, and for others only"
CAPACITY = "turno/worker/child_pool.py"
CAPACITIES = "tests/unit/worker/test_child_pool.py"
POOL = "tests/acceptance/test_pool.py"
SLOTS = "tests/unit/queues/test_slots.py"
EXEC = "tests/integration/queues/test_exec_queue.py"

MUTANTS = (
    Mutant(
        "a pool has nothing in reserve",
        SHARED,
        "turno/commands/work.py",
        "reserve=settings.reserve_children",
        "reserve=0",
        (f"{POOL}::test_long_jobs_in_every_child_delay_no_tenant",),
    ),
    Mutant(
        "the reserve is for any next job",
        BOUNDED,
        "turno/worker/distributor.py",
        "self.source.take(worker, free.slots, free.without)",
        "self.source.take(worker, free.slots)",
        (f"{POOL}::test_long_jobs_in_every_child_delay_no_tenant",),
    ),
    Mutant(
        "a claim takes jobs of tenants that are left out",
        BOUNDED,
        "turno/migrations/control/functions/claim.sql",
        " AND slug <> ALL (p_without)",
        "",
        ("tests/integration/store/fair_claiming/test_turns.py::test_a_tenant_that_is_left_out_has_no_turn",),
    ),
    Mutant(
        "short jobs open the reserve",
        BOUNDED,
        CAPACITY,
        "        if monotonic() < self.reserve_opens_at:\n",
        "        if self.reserve_opens_at == math.inf:\n",
        (f"{CAPACITIES}::test_a_short_job_is_worth_waiting_for",),
    ),
    Mutant(
        "the reserve has no bound",
        BOUNDED,
        CAPACITY,
        "<= len(busy) < self.size.maximum + self.size.reserve:",
        "<= len(busy):",
        (f"{CAPACITIES}::test_the_reserve_is_bounded",),
    ),
    Mutant(
        "that nothing waits for the reserve keeps a free child waiting",
        "decision 0040: a lone tenant has every child it had before",
        "turno/worker/sources/polling.py",
        "self._for_others if without else self._usual",
        "self._usual",
        ("tests/unit/worker/test_pool_source.py::test_empty_reserve_keeps_no_free_child_waiting",),
    ),
    Mutant(
        "a place in reserve is for any first job",
        BOUNDED,
        "turno/queues/exec/slots.py",
        "            if tenant in taken:\n",
        "            if False:\n",
        (f"{SLOTS}::test_reserve_is_for_tenants_without_a_place",),
    ),
    Mutant(
        "a job begun in the reserve stays there",
        BOUNDED,
        "turno/queues/exec/slots.py",
        "startswith(ORDINARY) or self._move()",
        "startswith(ORDINARY)",
        (f"{SLOTS}::test_reserve_owner_moves_to_a_free_ordinary_place",),
    ),
    Mutant(
        "in the reserve any job is taken",
        BOUNDED,
        "turno/worker/sources/spawned.py",
        "if not batches and others and ordinary:",
        "if not batches and others:",
        (f"{EXEC}::test_reserve_takes_no_job_of_a_tenant_with_a_place",),
    ),
    Mutant(
        "a tenant without a place waits its turn behind tenants with places",
        SHARED,
        "turno/worker/sources/spawned.py",
        "claim(others)",
        "claim()",
        (f"{EXEC}::test_ordinary_place_prefers_tenants_without_places",),
    ),
    Mutant(
        "a host has no place in reserve",
        SHARED,
        "turno/queues/exec/slots.py",
        "_paths(folder, RESERVE, reserve)",
        "_paths(folder, RESERVE, 0)",
        (f"{EXEC}::test_long_jobs_in_every_place_delay_no_tenant",),
    ),
    Mutant(
        "without room for one tenant no tenant is offered again",
        SHARED,
        "turno/maintenance/tasks.py",
        "                without=refused,\n",
        "",
        ("tests/integration/maintenance/test_maintenance.py::test_full_tenant_does_not_block_offers_of_another",),
    ),
    Mutant(
        "a consumer fills its reserve with any message",
        BOUNDED,
        "turno/capabilities/rabbitmq/source.py",
        "        if without:\n",
        "        if False:\n",
        ("tests/capabilities/rabbitmq/test_source.py::test_for_the_reserve_it_looks_and_takes_no_message",),
    ),
)
