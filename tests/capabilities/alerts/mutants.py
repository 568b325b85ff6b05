"""Guards of alerts: sent once, to the concerned receivers, and never lost."""

from tests.mutants.mutant import Mutant

ALERTS = "no alert is lost or sent a hundred times"
STATES = "turno/capabilities/alerts/stored.py"
ROUNDS = "turno/capabilities/alerts/rounds.py"
MAIL = "tests/capabilities/alerts/test_mail.py"
FAILING = "turno/migrations/control/functions/failing_jobs.sql"
TESTS = "tests/capabilities/alerts/test_alerts.py"

MUTANTS = (
    Mutant(
        "a mail server need not prove its identity",
        "a password goes only to the named server",
        "turno/mail.py",
        "server.starttls(context=trusted)",
        "server.starttls()",
        (f"{MAIL}::test_a_server_without_a_trusted_certificate_gets_nothing[nobody vouches-smtp+starttls]",),
    ),
    Mutant(
        "every long transaction counts as an old snapshot",
        "an alert reports exactly the present problems",
        "turno/store/operator/troubles.py",
        "          AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND backend_type <> 'autovacuum worker'\n",
        "",
        ("tests/integration/store/test_troubles.py::test_old_snapshot_is_reported_to_permitted_operators",),
    ),
    Mutant(
        "an alert is sent in every round",
        ALERTS,
        STATES,
        "WHERE b.again OR r.receiver = ANY (b.receivers) IS NOT TRUE",
        "WHERE true",
        (f"{TESTS}::test_tenant_failure_is_alerted_once_and_for_it_alone",),
    ),
    Mutant(
        "an alert that lasts is never sent again",
        ALERTS,
        STATES,
        "WHERE b.again OR r.receiver",
        "WHERE r.receiver",
        (f"{TESTS}::test_lasting_alert_is_repeated_after_the_period",),
    ),
    Mutant(
        "a receiver that is configured during an alert hears nothing of it",
        ALERTS,
        STATES,
        "r.receiver = ANY (b.receivers) IS NOT TRUE",
        "b.key IS NULL",
        (f"{TESTS}::test_a_new_receiver_gets_present_alerts_once",),
    ),
    Mutant(
        "a problem that pauses for a moment has recovered",
        ALERTS,
        STATES,
        "DELETE FROM alert_states a WHERE seen_at < clock_timestamp() - %(settle)s::interval",
        "DELETE FROM alert_states a WHERE true",
        (f"{TESTS}::test_paused_problem_has_not_recovered",),
    ),
    Mutant(
        "a receiver that fails is tried in every round",
        ALERTS,
        STATES,
        " AND greatest(m.next_at, r.next_at) <= clock_timestamp()",
        "",
        (f"{TESTS}::test_hour_of_errors_500_loses_no_alert_and_sends_few",),
    ),
    Mutant(
        "a refused alert is forgotten",
        ALERTS,
        ROUNDS,
        "            if error is None:\n",
        "            if True:\n",
        (f"{TESTS}::test_hour_of_errors_500_loses_no_alert_and_sends_few",),
    ),
    Mutant(
        "a receiver that hangs is waited for",
        ALERTS,
        "turno/maintenance/deliveries.py",
        "delivered, wait = 0, max(0.0, until - monotonic())",
        "delivered, wait = 0, 10.0",
        (f"{TESTS}::test_hanging_receiver_delays_neither_round_nor_peers",),
    ),
    Mutant(
        "quiet hours are like others",
        ALERTS,
        ROUNDS,
        "if not (quiet and receiver.waits) and",
        "if",
        (f"{TESTS}::test_quiet_hours_alert_the_log_and_others_afterwards",),
    ),
    Mutant(
        "one failure among any number of ends is an alert",
        ALERTS,
        FAILING,
        "100 * least(o.weighed, e.failed) >= e.percent * e.ended",
        "e.percent * e.ended > 0",
        (f"{TESTS}::test_few_failures_among_many_ends_are_no_alert",),
    ),
    Mutant(
        "a thousand rare errors of one type raise no alert",
        ALERTS,
        FAILING,
        "THEN sum(sum(failed)) OVER of_type ELSE",
        "THEN sum(failed) ELSE",
        (f"{TESTS}::test_many_rare_errors_of_a_type_are_one_alert",),
    ),
    Mutant(
        "a late message has the counts of the first round",
        ALERTS,
        STATES,
        "WHERE s.key = m.key AND m.event <> 'recovered'",
        "WHERE false",
        (f"{TESTS}::test_late_message_has_present_counts_by_weight",),
    ),
    Mutant(
        "a message lists the oldest alert first",
        ALERTS,
        STATES,
        "ORDER BY event = 'recovered', rank, id LIMIT",
        "ORDER BY id LIMIT",
        (f"{TESTS}::test_late_message_has_present_counts_by_weight",),
    ),
    Mutant(
        "values that change from round to round make another alert",
        ALERTS,
        "turno/capabilities/alerts/rounds.py",
        "if name not in CHANGING}",
        "if name}",
        (f"{TESTS}::test_changed_counts_are_the_same_alert",),
    ),
    Mutant(
        "a type's name adds a line to a mail",
        ALERTS,
        "turno/capabilities/alerts/receivers.py",
        'character if character.isprintable() else "?"',
        "character",
        (f"{TESTS}::test_a_type_s_name_adds_no_line_to_a_mail",),
    ),
    Mutant(
        "no process evaluates alerts while no resident worker lives",
        "issue 28: alerts evaluate where any process lives",
        "turno/wiring/web.py",
        "                    if tasks.run_unattended():\n",
        "                    if tasks.run_unattended() and False:\n",
        ("tests/capabilities/alerts/test_alerts.py::test_web_evaluates_alerts_without_a_living_pool",),
    ),
)
