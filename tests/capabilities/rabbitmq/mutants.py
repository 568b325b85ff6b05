"""Guards of the broker's backend: a message proves nothing, is acknowledged at once, and never keeps a job waiting."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

RELAY = "tests/capabilities/rabbitmq/test_stored.py"
BACKENDS = "tests/integration/dispatch/test_backends.py"
CONSUMER = "tests/capabilities/rabbitmq/test_consumer.py"
DECIDES = "section 7: a message proves nothing, the claim decides"
WINDOW = "section 7: the relay keeps a bounded window per tenant in the broker"
AT_ONCE = "section 7: a consumer claims the row and acknowledges at once"
SINGLE_RELAY = "section 7: a single relay, by lease"
FAIR = "promise 8: no tenant delays another with any priority"
KNOWN = "promise 7: jobs of unserved types cost other jobs nothing"
FLIP = "promise 6: switching the backend loses and doubles nothing"
NODES = "tests/capabilities/rabbitmq/test_connection.py"
ANY_NODE = "row 50 of the faults: one node of the broker's cluster is away, and the rest serve"
NEVER_LOST = "promise 1: a job answered 202 is never lost"

MUTANTS = (
    Mutant(
        "a broker process without a supervisor consumes messages",
        NEVER_LOST,
        "turno/capabilities/rabbitmq/receiver.py",
        "        self._credit = 0\n        if self.channel is not None:\n",
        "        if self.channel is not None:\n",
        (f"{CONSUMER}::test_stopped_receiver_consumes_nothing_after_a_break",),
    ),
    Mutant(
        "a busy consumer looks for ever and leaves its messages in the broker",
        "section 7: the relay keeps a bounded window in the broker",
        "turno/capabilities/rabbitmq/source.py",
        "        elif self._broker_connected:\n",
        "        elif False:\n",
        ("tests/capabilities/rabbitmq/test_source.py::test_broker_may_deliver_between_two_looks",),
    ),
    Mutant(
        "a message is believed about its tenant",
        DECIDES,
        "turno/capabilities/rabbitmq/sql/control/functions/claim_message.sql",
        "WHERE t.job_id = p_job AND n.schema = p_schema;",
        "WHERE t.job_id = p_job;",
        (f"{RELAY}::test_a_message_is_believed_only_as_far_as_the_ticket_agrees",),
    ),
    Mutant(
        "a busy tenant's whole backlog goes into the broker",
        WINDOW,
        "turno/capabilities/rabbitmq/sql/control/functions/unpublished.sql",
        "FROM next n WHERE n.turn <= n.free_slots ORDER BY",
        "FROM next n ORDER BY",
        (f"{RELAY}::test_window_is_per_tenant_and_tenants_take_turns",),
    ),
    Mutant(
        "a job held back by a cap is published",
        WINDOW,
        "turno/capabilities/rabbitmq/sql/control/functions/unpublished.sql",
        "               least(p_window, n.cap - (SELECT",
        "               least(p_window, p_window + (SELECT",
        (f"{RELAY}::test_unclaimable_job_is_not_published",),
    ),
    Mutant(
        "one tenant's messages come before another's",
        WINDOW,
        "turno/capabilities/rabbitmq/sql/control/functions/unpublished.sql",
        "ORDER BY n.turn, n.id LIMIT",
        "ORDER BY n.id, n.turn LIMIT",
        (f"{RELAY}::test_window_is_per_tenant_and_tenants_take_turns",),
    ),
    Mutant(
        "a window for each band gives a tenant that uses them all more turns",
        FAIR,
        "turno/capabilities/rabbitmq/sql/control/functions/unpublished.sql",
        "AND p.tenant_id = n.id) AS free_slots",
        "AND p.tenant_id = n.id AND p.priority = 0) AS free_slots",
        (f"{RELAY}::test_urgent_jobs_gain_nothing_over_another_tenant",),
    ),
    Mutant(
        "a job without a consumer is published and fills the window",
        KNOWN,
        "turno/capabilities/rabbitmq/sql/control/functions/unpublished.sql",
        "unnest(w.types, w.versions) AS k (type, version)\n        WHERE w.backend = 'rabbitmq'",
        "(SELECT t.type, t.version FROM tickets t) AS k\n        WHERE true",
        (f"{RELAY}::test_unknown_type_is_not_published_and_hides_nothing",),
    ),
    Mutant(
        "a job known only by a consumer without messages is published",
        KNOWN,
        "turno/capabilities/rabbitmq/sql/control/functions/unpublished.sql",
        " AND w.queues IS NULL",
        "",
        (f"{RELAY}::test_type_of_consumer_without_messages_is_not_published",),
    ),
    Mutant(
        "a published job of an unknown type fills the window",
        KNOWN,
        "turno/capabilities/rabbitmq/sql/control/functions/unpublished.sql",
        "FROM tickets p JOIN known k USING (type, version)",
        "FROM tickets p",
        (f"{RELAY}::test_published_unknown_jobs_take_no_room_in_the_window",),
    ),
    Mutant(
        "a turn that its consumer cannot use as named is lost",
        KNOWN,
        "turno/capabilities/rabbitmq/sql/control/functions/claim_message.sql",
        "    IF EXISTS (SELECT FROM unnest(types, versions) AS k (type, version)\n"
        "               WHERE k.type = p_named.type AND k.version = p_named.version) THEN\n",
        "    IF true THEN\n",
        (f"{RELAY}::test_unusable_turn_goes_to_a_runnable_job",),
    ),
    Mutant(
        "a paused type hides other urgent jobs",
        KNOWN,
        "turno/capabilities/rabbitmq/sql/control/functions/claim_message.sql",
        "j.paused_at IS NOT NULL\n",
        "false\n",
        (f"{RELAY}::test_paused_type_hides_no_job_in_its_band",),
    ),
    Mutant(
        "an urgent job waits for its tenant's messages in the broker",
        FAIR,
        "turno/capabilities/rabbitmq/sql/control/functions/claim_message.sql",
        "IF named.state = 'ready' THEN",
        "IF false THEN",
        (f"{RELAY}::test_a_tenant_s_urgent_job_takes_the_next_of_its_turns",),
    ),
    Mutant(
        "a job that gave its turn away is never published again",
        NEVER_LOST,
        "turno/capabilities/rabbitmq/sql/control/functions/claim_message.sql",
        "WHERE n.job_id = p_job AND n.worker_id IS NULL\n",
        "WHERE false\n",
        (f"{RELAY}::test_a_tenant_s_urgent_job_takes_the_next_of_its_turns",),
    ),
    Mutant(
        "a tenant's low jobs never have a turn of their own",
        "section 6: every eighth takes the oldest, so that nothing starves",
        "turno/capabilities/rabbitmq/sql/control/functions/claim_message.sql",
        "goes_before(named, random() < 0.125,",
        "goes_before(named, false,",
        (f"{RELAY}::test_low_jobs_do_not_starve_behind_urgent_ones",),
    ),
    Mutant(
        "a consumer that hears looks for nothing",
        KNOWN,
        "turno/capabilities/rabbitmq/source.py",
        "if self.clock() >= self._poll_at else []",
        "if self.clock() >= self._quiet_at else []",
        ("tests/capabilities/rabbitmq/test_source.py::test_receiving_source_still_looks_for_one_job_at_times",),
    ),
    Mutant(
        "a late mark hides the next attempt from the relay",
        NEVER_LOST,
        "turno/capabilities/rabbitmq/sql/control/functions/unpublished.sql",
        "AND t.attempt = sent.attempt\n",
        "\n",
        (f"{RELAY}::test_a_mark_that_comes_late_touches_no_later_attempt",),
    ),
    Mutant(
        "two relays are active together",
        SINGLE_RELAY,
        "turno/migrations/control/functions/lease_take.sql",
        "OR p_renew AND leases.holder = p_holder",
        "OR p_renew",
        (f"{RELAY}::test_lease_is_renewed_and_taken_over_when_free",),
    ),
    Mutant(
        "a claimed job of another backend is stamped over",
        FLIP,
        "turno/migrations/control/functions/backend_for.sql",
        "WHERE t.state = 'ready' AND t.backend = ANY (dead) AND t.run_at",
        "WHERE t.state = 'ready' AND t.backend <> target AND t.run_at",
        (f"{BACKENDS}::test_stamping_over_needs_dead_source_and_live_target",),
    ),
    Mutant(
        "a running job is moved to another backend",
        FLIP,
        "turno/migrations/control/functions/backend_for.sql",
        "WHERE w.state <> 'running' AND w.backend <> c.backend",
        "WHERE w.backend <> c.backend",
        (f"{BACKENDS}::test_waiting_jobs_move_and_running_jobs_stay",),
    ),
    Mutant(
        "a message waits for its job's end to be acknowledged",
        AT_ONCE,
        "turno/capabilities/rabbitmq/source.py",
        '                self._broker_process.send("done", receipt)',
        "                pass",
        (f"{CONSUMER}::test_a_message_is_acknowledged_while_its_job_still_runs",),
    ),
    Mutant(
        "a busy consumer keeps its received messages",
        "section 7: prefetch equals the free children",
        "turno/capabilities/rabbitmq/receiver.py",
        "        self._returning = None\n        if self.channel is None or",
        "        return\n        if self.channel is None or",
        (f"{CONSUMER}::test_busy_consumer_returns_messages_to_the_queue",),
    ),
    Mutant(
        "without a broker no consumer looks",
        NEVER_LOST,
        "turno/capabilities/rabbitmq/source.py",
        "if self.clock() >= self._poll_at else []",
        "if False else []",
        ("tests/capabilities/rabbitmq/test_source.py::test_after_a_silence_it_looks_for_all_that_are_free",),
    ),
    Mutant(
        "junk is thrown away",
        "section 7: undecodable messages go to a quarantine queue",
        "turno/capabilities/rabbitmq/topology.py",
        "{**quorum, **dead_letters}",
        "{**quorum}",
        (f"{CONSUMER}::test_undecodable_message_is_quarantined_with_alert",),
    ),
    Mutant(
        "a queue that differs is used",
        "section 7: the topology is checked at the start",
        "turno/capabilities/rabbitmq/topology.py",
        "        if error.reply_code == DIFFERENT:",
        "        if error.reply_code == -1:",
        ("tests/capabilities/rabbitmq/test_topology.py::test_mismatched_object_is_named_with_the_remedy",),
    ),
    Mutant(
        "one node of several is used",
        ANY_NODE,
        "turno/capabilities/rabbitmq/topology.py",
        'for host in hosts.split(",")]',
        'for host in hosts.split(",")[:1]]',
        (f"{NODES}::test_each_host_of_a_url_is_a_node",),
    ),
    Mutant(
        "after a break the same node is tried again",
        ANY_NODE,
        "turno/capabilities/rabbitmq/connection.py",
        "        self._nodes.rotate(-1)\n",
        "",
        (f"{NODES}::test_link_tries_nodes_from_any_start",),
    ),
)
