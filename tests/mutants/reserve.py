"""Guards of the reserve: one tenant's long jobs leave a child for the others, and short jobs never open it."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SHARED = "promise 8: one busy tenant does not delay another"
BOUNDED = "decision 0040: the reserve is bounded, and for others only"
CAPACITY = "app/work/capacity.py"
CAPACITIES = "tests/unit/test_capacity.py"
POOL = "tests/acceptance/test_pool.py"

MUTANTS = (
    Mutant(
        "a pool has nothing in reserve",
        SHARED,
        "cli/worker_wiring.py",
        "reserve=settings.reserve_children",
        "reserve=0",
        (f"{POOL}::test_long_jobs_in_every_child_keep_no_other_tenant_waiting",),
    ),
    Mutant(
        "the reserve is for whoever comes next",
        BOUNDED,
        "app/work/supervisor.py",
        "self._source.take(self._worker, room.slots, room.without)",
        "self._source.take(self._worker, room.slots)",
        (f"{POOL}::test_long_jobs_in_every_child_keep_no_other_tenant_waiting",),
    ),
    Mutant(
        "a claim takes jobs of tenants that are left out",
        BOUNDED,
        "migrations/control/functions/claim.sql",
        " AND slug <> ALL (p_without)",
        "",
        ("tests/integration/test_fair_claiming.py::test_a_tenant_that_is_left_out_has_no_turn",),
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
        "<= len(busy) < self._size.most + self._size.reserve:",
        "<= len(busy):",
        (f"{CAPACITIES}::test_the_reserve_is_bounded",),
    ),
    Mutant(
        "that nothing waits for the reserve keeps a free child waiting",
        "decision 0040: a lone tenant has every child it had before",
        "app/work/pool_source.py",
        "self._for_others if without else self._usual",
        "self._usual",
        ("tests/unit/test_pool_source.py::test_that_nothing_waits_for_the_reserve_keeps_no_free_child_waiting",),
    ),
    Mutant(
        "a consumer fills its reserve with whatever the broker sends",
        BOUNDED,
        "app/work/broker_source.py",
        "        if without:\n",
        "        if False:\n",
        ("tests/unit/test_broker_source.py::test_for_the_reserve_it_looks_and_takes_no_message",),
    ),
)
