"""Guards of stored values: no value of one tenant's stops shared work, and none loses the end of a job."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = "tests/integration/store/test_limits_of_values.py"
REFUSED = f"{TESTS}::test_a_job_beyond_a_limit_is_refused_under_the_field_s_name"
WRITTEN = f"{TESTS}::test_attempt_writes_beyond_a_limit_are_refused_by_name"
OWN = "promise 9: one tenant's trouble stays that tenant's"
NEVER_LOST = "promise 2: the end of a job commits with any result"
CONTROL = "turno/migrations/control/schema/0001_control.sql"
CHANGE = "turno/migrations/control/functions/promote.sql"
CAUGHT = "EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN\n"


def _domain(name: str, check: str, test: str) -> Mutant:
    return Mutant(name, OWN, CONTROL, check, "CHECK (true)", (test,))


MUTANTS = (
    Mutant(
        "ids of a millisecond are in no order",
        "decision 7: ids sort by time",
        "turno/migrations/control/functions/uuid_v7.sql",
        "now.us % 1000 * 4096 / 1000",
        "(random() * 4095)::integer",
        ("tests/integration/store/test_ids.py::test_ids_keep_their_order_within_a_millisecond",),
    ),
    Mutant(
        "a job waits for ever in no list",
        "section 3: a job that waits for a person is parked by a doubt",
        "turno/migrations/tenant/functions/attempt_end.sql",
        "IF p_run_at = 'infinity' AND NOT EXISTS",
        "IF false AND NOT EXISTS",
        ("tests/integration/store/test_limits_of_values.py::test_release_without_a_time_needs_a_doubt",),
    ),
    _domain("a queue has any length", "CHECK (octet_length(VALUE) BETWEEN 1 AND 63)", f"{REFUSED}[queue]"),
    _domain("a type has any length", "CHECK (octet_length(VALUE) BETWEEN 1 AND 127)", f"{REFUSED}[type]"),
    _domain(
        "a job is due before time began",
        "CHECK (VALUE = 'infinity' OR VALUE >= '2000-01-01 00:00Z' AND VALUE < '9999-12-31 00:00Z')",
        f"{REFUSED}[run_at]",
    ),
    _domain(
        "a job expires when no program can say",
        "CHECK (VALUE >= '2000-01-01 00:00Z' AND VALUE < '9999-12-31 00:00Z')",
        f"{REFUSED}[expires_at]",
    ),
    _domain(
        "an attempt begins before time began",
        "CHECK (VALUE BETWEEN '2000-01-01 00:00Z' AND '9999-12-30 00:00Z')",
        "tests/integration/store/test_forged_records.py::test_job_start_refuses_unreadable_times[-infinity]",
    ),
    _domain(
        "JSON nests deeper than Python reads",
        "CHECK (octet_length(VALUE::text) < 400 OR NOT VALUE @? 'strict $.**{201}')",
        f"{REFUSED}[deep payload]",
    ),
    _domain(
        "JSON has numbers that Python does not read",
        "CHECK (octet_length(VALUE::text) < 4000 OR NOT VALUE @? 'strict $.** ? (@ > 1e308 || @ < -1e308)')",
        f"{REFUSED}[payload with a number that Python cannot read]",
    ),
    _domain(
        "an error is any JSON",
        "CHECK (jsonb_typeof(VALUE) = 'object' AND octet_length(VALUE::text) <= 131072)",
        f"{WRITTEN}[an item's error]",
    ),
    Mutant(
        "a ticket takes any queue",
        OWN,
        CONTROL,
        "    queue        queue_name NOT NULL,",
        "    queue        text NOT NULL,",
        (f"{TESTS}::test_ticket_enforces_its_limits",),
    ),
    Mutant(
        "one ticket that is refused stops promoting",
        OWN,
        CHANGE,
        f"    {CAUGHT}        why := SQLERRM;",
        "    EXCEPTION WHEN raise_exception THEN\n        why := SQLERRM;",
        (f"{TESTS}::test_unpromotable_ticket_blocks_no_ticket",),
    ),
    Mutant(
        "one ticket that cannot even be set aside stops promoting",
        OWN,
        CHANGE,
        f"    {CAUGHT}        why := why",
        "    EXCEPTION WHEN raise_exception THEN\n        why := why",
        (f"{TESTS}::test_ticket_refusing_every_change_blocks_no_other",),
    ),
    Mutant(
        "one ticket that is refused stops a cut-over",
        "promise 6: switching the backend loses nothing",
        CHANGE,
        "IF cardinality(p_jobs) > 1 THEN",
        "IF false THEN",
        (f"{TESTS}::test_ticket_with_stuck_backend_blocks_no_other[reroute]",),
    ),
    Mutant(
        "one job that is refused stops expiring",
        OWN,
        "turno/migrations/tenant/functions/job_end.sql",
        CAUGHT,
        "EXCEPTION WHEN raise_exception THEN\n",
        (f"{TESTS}::test_inexpirable_job_blocks_no_job_of_its_tenant",),
    ),
    Mutant(
        "an error that is too large loses its job's end",
        NEVER_LOST,
        "turno/migrations/tenant/functions/error_kept.sql",
        "EXCEPTION WHEN check_violation THEN\n",
        "EXCEPTION WHEN raise_exception THEN\n",
        (f"{TESTS}::test_no_error_is_too_large_to_end_an_attempt[None-large]",),
    ),
    Mutant(
        "a long reason loses its job's end",
        NEVER_LOST,
        "turno/migrations/tenant/functions/job_end.sql",
        "reason = shortened(p_reason, 1000)",
        "reason = p_reason",
        (f"{TESTS}::test_a_reason_for_cancelling_is_shortened",),
    ),
    Mutant(
        "a ledger grows until no statement can purge it",
        OWN,
        "turno/migrations/tenant/functions/job_progress.sql",
        "    IF entered > 1000000 THEN\n",
        "    IF false THEN\n",
        (f"{TESTS}::test_a_ledger_is_full_before_it_is_too_large_to_be_purged",),
    ),
    Mutant(
        "operators read an infinite time",
        OWN,
        CONTROL,
        "min(run_at) FILTER (WHERE isfinite(run_at)) AS oldest",
        "min(run_at) AS oldest",
        (f"{TESTS}::test_parked_ticket_has_a_readable_time",),
    ),
)
