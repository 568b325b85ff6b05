"""Guards of what is published."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PUBLISH = "turno/migrations/tenant/functions/event_publish.sql"
SUBSCRIBE = "turno/migrations/control/functions/subscribe.sql"
TESTS = "tests/integration/dispatch/test_events.py"
ONE_JOB = "issue 17.5: exactly one job per subscriber and event"

MUTANTS = (
    Mutant(
        "a new subscriber misses what an open transaction has published",
        ONE_JOB,
        PUBLISH,
        "PERFORM pg_advisory_xact_lock_shared(0, hashtext('turno.subscriptions'));",
        "",
        (f"{TESTS}::test_a_new_subscriber_waits_for_the_transactions_that_have_published",),
    ),
    Mutant(
        "an older snapshot decides who is subscribed",
        ONE_JOB,
        PUBLISH,
        "IF current_setting('transaction_isolation') <> 'read committed' THEN",
        "IF false THEN",
        (f"{TESTS}::test_an_older_snapshot_is_refused",),
    ),
    Mutant(
        "older code takes a subscription away",
        "issue 17.5: a subscriber stays subscribed while old and new code run side by side",
        SUBSCRIBE,
        "AND h.version <= t.version",
        "",
        (f"{TESTS}::test_code_that_is_older_takes_no_subscription_away",),
    ),
    Mutant(
        "a subscriber with keys does not take the event's",
        "issue 17.5: order per key where asked",
        PUBLISH,
        "CASE WHEN one.keyed THEN one.key END",
        "NULL",
        (f"{TESTS}::test_each_subscriber_has_one_job_once_the_business_has_committed",),
    ),
)
