"""Guards of events."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

PUBLISH = "turno/capabilities/events/sql/tenant/functions/event_publish.sql"
SUBSCRIBE = "turno/capabilities/events/sql/control/functions/subscribe.sql"
PRUNE = "turno/migrations/control/functions/prune.sql"
TESTS = "tests/capabilities/events/test_events.py"
ORDERED = "tests/capabilities/events/test_ordered_events.py"
MOVED = "turno/migrations/control/functions/key_moved.sql"
ORDER = "issue 17.5: order per key on request"
TWO_RELEASES = "issue 24: a subscription exists while a running release declares it"
JOB_PER_SUBSCRIBER = "issue 17.5: exactly one job per subscriber and event"

MUTANTS = (
    Mutant(
        "an announcement removes the subscriptions of another release",
        TWO_RELEASES,
        SUBSCRIBE,
        "    INSERT INTO subscriptions (event",
        "    DELETE FROM subscriptions;\n    INSERT INTO subscriptions (event",
        (f"{TESTS}::test_two_releases_in_turn_lose_no_event",),
    ),
    Mutant(
        "only the process that does maintenance announces",
        TWO_RELEASES,
        "turno/maintenance/tasks.py",
        "            self.announce()\n        with _logged():\n"
        '            if self.engine.take_lease("maintenance", process_name(), LEASE):\n',
        "            pass\n        with _logged():\n"
        '            if self.engine.take_lease("maintenance", process_name(), LEASE):\n'
        "                self.announce()\n",
        (f"{TESTS}::test_each_process_announces_without_the_lease",),
    ),
    Mutant(
        "subscriptions age while no process announces",
        TWO_RELEASES,
        SUBSCRIBE,
        " WHERE p_pause IS NOT NULL;",
        " WHERE false;",
        (f"{TESTS}::test_no_subscription_ends_while_nothing_is_announced",),
    ),
    Mutant(
        "an announcement does not keep a subscription",
        TWO_RELEASES,
        SUBSCRIBE,
        "    ON CONFLICT (event, type, ordered) DO UPDATE SET seen_at = now;",
        "    ON CONFLICT (event, type, ordered) DO NOTHING;",
        (f"{TESTS}::test_announcements_write_once_a_minute",),
    ),
    Mutant(
        "a subscription that no release declares stays for ever",
        TWO_RELEASES,
        SUBSCRIBE,
        "WHERE seen_at < now - interval '1 day' FOR UPDATE",
        "WHERE false FOR UPDATE",
        (f"{TESTS}::test_a_subscription_ends_a_day_after_its_last_announcement",),
    ),
    Mutant(
        "a type with an open job is removed",
        TWO_RELEASES,
        PRUNE,
        "          AND NOT EXISTS (SELECT FROM tickets t WHERE t.type = h.type)\n",
        "",
        ("tests/integration/store/test_announcements.py::test_type_stays_while_announced_or_with_open_jobs",),
    ),
    Mutant(
        "a type that a worker runs is removed",
        TWO_RELEASES,
        PRUNE,
        "          AND NOT EXISTS (SELECT FROM workers w WHERE h.type = ANY (w.types)) ",
        " ",
        ("tests/integration/store/test_announcements.py::test_type_stays_while_announced_or_with_open_jobs",),
    ),
    Mutant(
        "publishing waits for a deployment",
        "DESIGN 7: publishing waits for no registration",
        PUBLISH,
        "    INSERT INTO background_events (name, key",
        "    LOCK TABLE turno.subscriptions IN SHARE MODE;\n    INSERT INTO background_events (name, key",
        (f"{TESTS}::test_a_deployment_and_an_open_publication_do_not_wait",),
    ),
    Mutant(
        "a job creates any number of jobs by events",
        "FAULTS A18: at most 1,000 open jobs created by the jobs of a user",
        PUBLISH,
        "    PERFORM assert_few_open(origin.user_id, ",
        "    PERFORM greatest(0, ",
        (f"{TESTS}::test_events_of_a_job_stop_at_the_limit_of_child_jobs",),
    ),
    Mutant(
        "a replay of missing events repeats delivered events",
        JOB_PER_SUBSCRIBER,
        PUBLISH,
        "NOT (p_missing AND EXISTS",
        "NOT (false AND EXISTS",
        (f"{TESTS}::test_a_subscriber_gets_earlier_events_only_by_replay",),
    ),
    Mutant(
        "a subscriber with keys does not take the event's",
        ORDER,
        PUBLISH,
        " WHEN h.keyed THEN e.key END)) AS job",
        " END)) AS job",
        (f"{TESTS}::test_each_subscriber_has_one_job_after_the_commit",),
    ),
    Mutant(
        "an event overtakes an earlier one with a retrying job",
        ORDER,
        MOVED,
        "AND t.key_position IS NOT NULL\n",
        "AND t.key_position IS NOT NULL AND t.state = 'waiting'\n",
        (f"{ORDERED}::test_a_job_that_is_tried_again_is_not_overtaken",),
    ),
    Mutant(
        "an event overtakes an earlier one with a failed job",
        ORDER,
        MOVED,
        "AND d.key_position < next.key_position);",
        "AND false);",
        (f"{ORDERED}::test_order_waits_for_a_failed_job_until_decided[_discarded]",),
    ),
    Mutant(
        "a cancelled job blocks the later events of an order for ever",
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
        "        new.backend := p_backend;\n",
        "        new.backend := p_backend;\n        new.key_position := old.key_position + 100;\n",
        (f"{ORDERED}::test_order_waits_for_a_failed_job_until_decided[_retried]",),
    ),
)
