"""Guards of what is published."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PUBLISH = "turno/migrations/tenant/functions/event_publish.sql"
SUBSCRIBE = "turno/migrations/control/functions/subscribe.sql"
TESTS = "tests/integration/dispatch/test_events.py"
ORDERED = "tests/integration/dispatch/test_ordered_events.py"
MOVED = "turno/migrations/control/functions/key_moved.sql"
ORDER = "issue 17.5: order per key where asked"
ONE_JOB = "issue 17.5: exactly one job per subscriber and event"

MUTANTS = (
    Mutant(
        "a new subscriber misses what an open transaction has published",
        ONE_JOB,
        PUBLISH,
        "PERFORM pg_advisory_xact_lock_shared(0, hashtext('turno.subscriptions'));\n    INSERT INTO",
        "INSERT INTO",
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
        ORDER,
        PUBLISH,
        "WHEN h.keyed THEN e.key END AS line",
        "END AS line",
        (f"{TESTS}::test_each_subscriber_has_one_job_once_the_business_has_committed",),
    ),
    Mutant(
        "an event overtakes one before it whose job is tried again",
        ORDER,
        MOVED,
        "AND t.key_position IS NOT NULL\n",
        "AND t.key_position IS NOT NULL AND t.state = 'waiting'\n",
        (f"{ORDERED}::test_a_job_that_is_tried_again_is_not_overtaken",),
    ),
    Mutant(
        "an event overtakes one before it whose job failed for good",
        ORDER,
        MOVED,
        "AND d.key_position < first.key_position) AND NOT",
        "AND false) AND NOT",
        (f"{ORDERED}::test_one_that_failed_for_good_is_waited_for_until_somebody_decides[_discarded]",),
    ),
    Mutant(
        "a cancelled job keeps those behind it in an order waiting for ever",
        ORDER,
        MOVED,
        " OR TG_OP = 'DELETE' AND OLD.key_position IS NOT NULL THEN",
        " THEN",
        (f"{ORDERED}::test_a_cancelled_one_is_left_out",),
    ),
    Mutant(
        "the job that takes the place of a dead letter goes to the end of its order",
        ORDER,
        "turno/migrations/tenant/functions/job_retry.sql",
        "old.concurrency_key,\n                old.key_position);\n        -- With",
        "old.concurrency_key,\n                old.key_position + 100);\n        -- With",
        (f"{ORDERED}::test_one_that_failed_for_good_is_waited_for_until_somebody_decides[_retried]",),
    ),
    Mutant(
        "what is published meanwhile overtakes the older events of a new subscriber",
        ORDER,
        MOVED,
        "s.type = first.type AND s.ordered AND s.backlog) THEN",
        "false) THEN",
        (f"{ORDERED}::test_a_new_subscriber_begins_with_the_oldest",),
    ),
)
