"""Guards of the live streams: visibility, bounds, and the cost of a lost hint."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SUBSCRIBER, SUBSCRIBERS, HUB = (
    f"turno/capabilities/streams/{name}.py" for name in ("subscriber", "tenant_subscribers", "hub")
)
ACCESS = "turno/capabilities/streams/access.py"
OF_HUB = "tests/capabilities/streams/test_hub.py"
OF_TICKETS = "tests/capabilities/streams/test_tickets.py"
OF_STREAMS = "tests/capabilities/streams/test_streams.py"
OF_FAULTS = "tests/capabilities/streams/test_faults.py"
OF_SUBSCRIBER = "tests/capabilities/streams/test_subscriber.py"
OF_FRAMES = "tests/capabilities/streams/test_frames.py"
OF_CLIENT = "tests/unit/test_client.py"
OWN = "section 8: a stream shows exactly its user's visible jobs"
SINGLE_USE = "section 8: a ticket is one-use, short-lived, bound to user, tenant and job"
NOTHING_MISSED = "section 8: nothing can be missed, hint or no hint"
ALL_SERVED = "section 8: one stream's fault is no other's, and its place is free again"
BOUNDED = "section 8: bounded queues"

MUTANTS = (
    Mutant(
        "a polled job is called live",
        "section 9: pages show the true state",
        "turno/web/static/turno-client.js",
        "    if (!this.streaming || this._unreported().length > 0) return;\n",
        "    if (!this.streaming) return;\n",
        ("tests/capabilities/pages/test_browser_operator.py::test_unstreamed_job_is_polled_and_not_called_live",),
    ),
    Mutant(
        "anybody streams everybody's jobs",
        "section 8: operators only",
        "turno/capabilities/streams/api.py",
        "        require_operator(call.scope.principal)\n",
        "        pass\n",
        ("tests/capabilities/streams/test_streams.py::test_only_an_operator_streams_jobs_of_all_users",),
    ),
    Mutant(
        "a stream shows every user's jobs",
        OWN,
        SUBSCRIBER,
        "            return self.everybody or self.user == user\n",
        "            return True\n",
        (f"{OF_HUB}::test_hinted_change_is_shown_to_authorised_users",),
    ),
    Mutant(
        "an older state follows a newer one",
        "section 8: state with revisions",
        SUBSCRIBER,
        "before[0] > state.revision or ",
        "",
        (f"{OF_SUBSCRIBER}::test_nothing_older_or_equal_follows_a_state",),
    ),
    Mutant(
        "the backlog of a slow reader is unbounded",
        BOUNDED,
        SUBSCRIBER,
        "if len(self._waiting) > MOST_WAITING:",
        "if False:",
        (f"{OF_SUBSCRIBER}::test_slow_reader_is_dropped_beyond_its_backlog",),
    ),
    Mutant(
        "a quiet stream is not kept alive",
        "section 8: proxies close quiet connections",
        "turno/capabilities/streams/live.py",
        "if not part and monotonic() >= self._due:",
        "if False:",
        (f"{OF_FRAMES}::test_a_quiet_stream_is_kept_alive[by_thread]",),
    ),
    Mutant(
        "a server that cancels a stream ends it without a reason",
        "section 8: streams end with the process",
        "turno/capabilities/streams/live.py",
        "                self._subscriber.end(CloseReason.SHUTTING_DOWN)\n",
        "                raise\n",
        (f"{OF_FRAMES}::test_a_cancelled_stream_ends_with_its_reason",),
    ),
    Mutant(
        "a stream outlives its session",
        "section 8: the stream ends when the session does",
        "turno/capabilities/streams/live.py",
        "if time() >= self._subscriber.view.until:",
        "if False:",
        (f"{OF_FRAMES}::test_a_session_that_is_over_ends_its_stream[by_thread]",),
    ),
    Mutant(
        "a stream outlives a revoked token",
        "section 8: the stream ends when the session does",
        SUBSCRIBERS,
        "if valid_from is None or subscriber.view.issued_at < valid_from:",
        "if valid_from is None:",
        (f"{OF_HUB}::test_streams_end_with_revoked_tokens_or_removed_tenant",),
    ),
    Mutant(
        "every hint of a flood is read",
        BOUNDED,
        HUB,
        "return self._bytes > FLOOD_BYTES_PER_SECOND\n",
        "return False\n",
        (f"{OF_HUB}::test_hint_flood_looks_at_every_tenant_without_reading",),
    ),
    Mutant(
        "a hint puts off the look for jobs without a hint",
        NOTHING_MISSED,
        HUB,
        "        try:\n            work()\n",
        "        audience.due = monotonic() + self._compare_every\n        try:\n            work()\n",
        (f"{OF_HUB}::test_hints_of_a_busy_job_do_not_delay_its_neighbours",),
    ),
    Mutant(
        "a stream carries results of any size",
        BOUNDED,
        "turno/store/api/watched_jobs.py",
        "CASE WHEN octet_length(j.result::text) <= 4096 THEN j.result END AS result",
        "j.result",
        (f"{OF_HUB}::test_long_error_and_result_are_left_to_the_job_url",),
    ),
    Mutant(
        "a forged cause of a crash is shown once it is shortened",
        BOUNDED,
        "turno/store/api/jobs.py",
        "'traceback', NULL,",
        "",
        (f"{OF_HUB}::test_long_error_and_result_are_left_to_the_job_url",),
    ),
    Mutant(
        "a lost hint is lost",
        NOTHING_MISSED,
        HUB,
        "        if changed := audience.changed(standings, just_ended):\n",
        "        if changed := set():\n",
        (
            f"{OF_HUB}::test_a_lost_hint_is_made_good_for[user]",
            f"{OF_HUB}::test_a_job_that_began_and_ended_between_two_looks_is_shown",
        ),
    ),
    Mutant(
        "a job that came and went between two looks is never shown",
        NOTHING_MISSED,
        HUB,
        "watched_jobs.ended_within(reader, users, JUST_NOW) if users != set() else []",
        "[]",
        (f"{OF_HUB}::test_a_job_that_began_and_ended_between_two_looks_is_shown",),
    ),
    Mutant(
        "one tenant's trouble reaches all tenants",
        "promise 5: no tenant harms another",
        HUB,
        "if not isinstance(error, (psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled)):",
        "if True:",
        (f"{OF_HUB}::test_locked_tenant_delays_no_stream_of_others",),
    ),
    Mutant(
        "a senseless hint stops the hub",
        "RELIABILITY row 42: unknown payloads dropped",
        HUB,
        "                except ValueError:\n                    continue",
        "                except KeyError:\n                    continue",
        (f"{OF_HUB}::test_forged_and_senseless_hints_are_ignored",),
    ),
    Mutant(
        "a user may open any number of streams",
        "section 8: 503 when full; one user does not fill the server",
        HUB,
        "if self._streams[user] >= self._most_per_user:",
        "if False:",
        (f"{OF_HUB}::test_a_hub_serves_so_many_streams_and_so_many_of_one_user",),
    ),
    Mutant(
        "a tenant may open any number of streams",
        "promise 9: one tenant does not take all streams",
        HUB,
        "if audience is not None and len(audience.subscribers) >= self._most_per_tenant:",
        "if False:",
        (
            f"{OF_HUB}::test_one_tenant_takes_its_share_of_the_streams",
            f"{OF_STREAMS}::test_one_tenant_leaves_half_of_the_streams",
        ),
    ),
    Mutant(
        "a ticket is used twice",
        SINGLE_USE,
        "turno/capabilities/streams/sql/control/functions/stream_ticket_take.sql",
        "WITH taken AS (DELETE FROM stream_tickets t WHERE t.hash = p_hash RETURNING t.*)",
        "WITH taken AS (SELECT t.* FROM stream_tickets t WHERE t.hash = p_hash)",
        (f"{OF_TICKETS}::test_a_ticket_opens_its_stream_once",),
    ),
    Mutant(
        "an expired ticket is good",
        SINGLE_USE,
        "turno/capabilities/streams/sql/control/functions/stream_ticket_take.sql",
        "FROM taken t WHERE t.expires_at > clock_timestamp();",
        "FROM taken t;",
        (f"{OF_TICKETS}::test_a_ticket_that_does_not_count_any_more_opens_nothing[expired]",),
    ),
    Mutant(
        "a ticket for one job opens another's stream",
        SINGLE_USE,
        ACCESS,
        "if wanted != (None if ticket.job_id is None else str(ticket.job_id)):",
        "if False:",
        (f"{OF_TICKETS}::test_ticket_is_bound_to_job_and_ends_with_wrong_use",),
    ),
    Mutant(
        "a ticket is good for minutes",
        SINGLE_USE,
        "turno/capabilities/streams/sql/control/functions/stream_ticket_put.sql",
        "clock_timestamp() + p_for);",
        "clock_timestamp() + 10 * p_for);",
        (f"{OF_TICKETS}::test_a_ticket_is_good_for_half_a_minute_at_most",),
    ),
    Mutant(
        "a ticket for one tenant opens another's stream",
        SINGLE_USE,
        ACCESS,
        "    return _tenant_named(request) in (None, ticket.tenant) and ticket.until >",
        "    return ticket.until >",
        (f"{OF_TICKETS}::test_ticket_is_bound_to_job_and_ends_with_wrong_use",),
    ),
    Mutant(
        "a ticket outlives its session",
        "section 8: the stream ends when the session does",
        ACCESS,
        " and ticket.until > services().clock().timestamp()",
        "",
        (f"{OF_TICKETS}::test_a_ticket_that_does_not_count_any_more_opens_nothing[session over]",),
    ),
    Mutant(
        "flask-sse's own view answers",
        "section 8: its stock view is never registered",
        "turno/capabilities/streams/api.py",
        """        \"\"\"Refuse: the content depends on the principal, never on the query.\"\"\"
        raise NotImplementedError
""",
        """        return super().stream()
""",
        (f"{OF_TICKETS}::test_flask_sse_s_own_view_and_its_redis_are_out_of_reach",),
    ),
    Mutant(
        "a reading in one tab is not announced to other tabs",
        "section 8: a hint makes the hub read the named jobs",
        "turno/web/api/notifications.py",
        "    services().live.announce(scope.tenant.id, job)\n",
        "",
        (f"{OF_STREAMS}::test_notification_read_in_one_tab_reaches_all_tabs",),
    ),
    Mutant(
        "a notification that was read is no news",
        "section 8: state with revisions",
        "turno/capabilities/streams/stream_events.py",
        "1 if body.read_at is None else 2",
        "1",
        (f"{OF_STREAMS}::test_notification_read_in_one_tab_reaches_all_tabs",),
    ),
    Mutant(
        "another site opens streams with the cookie",
        "RELIABILITY attack 48",
        ACCESS,
        "        _refuse_other_sites(request)\n",
        "        pass\n",
        (f"{OF_STREAMS}::test_foreign_site_opens_no_stream_with_any_cookie[headers0-403]",),
    ),
    Mutant(
        "a stream that never began keeps its place",
        ALL_SERVED,
        "turno/web/admission.py",
        '    if leave := g.pop("turno_leave", None):\n        leave()\n',
        "    pass\n",
        ("tests/integration/web/test_api_service.py::test_a_stream_that_never_began_leaves_its_place",),
    ),
    Mutant(
        "streams do not receive their end",
        "section 8: all end within a second of SIGTERM",
        "turno/http_server/web_server.py",
        "        self._stop()\n        self._connections",
        "        self._connections",
        (f"{OF_FAULTS}::test_sigterm_ends_streams_and_next_process_resumes",),
    ),
    Mutant(
        "an ended job is not announced",
        "section 8: a hint makes the hub read the named jobs",
        "turno/worker/supervisor.py",
        "            self._change_notifier.changed(report.claims)\n",
        "",
        ("tests/acceptance/test_announcing.py::test_start_progress_and_end_are_announced_by_the_supervisor",),
    ),
    Mutant(
        "a service with pending migrations is ready",
        "section 10: one release, one schema",
        "turno/tenancy/schema_migrations/lacking.py",
        "    if lacking:\n",
        "    if False:\n",
        ("tests/integration/web/test_readiness.py::test_pending_migrations_are_reported[a step is missing]",),
    ),
    Mutant(
        "no watcher learns that a job waits for a person",
        "section 8: jobs, progress and notifications of one user",
        HUB,
        'is not None or row["run_at"] is None]',
        "is not None]",
        (f"{OF_HUB}::test_parked_job_notifies_its_user_at_once",),
    ),
    Mutant(
        "an answer that was waited for is an older state",
        NOTHING_MISSED,
        "turno/capabilities/streams/live.py",
        "            await asyncio.to_thread(self._settle, self.response)\n",
        "            pass\n",
        (f"{OF_FRAMES}::test_a_wait_ends_with_its_job_and_with_its_time[by_thread]",),
    ),
    Mutant(
        "a submission that is sent again is another job",
        "issue 17: retries make no second job",
        "turno/client.py",
        "about | dict(headers or {})",
        "about",
        (f"{OF_CLIENT}::test_limits_and_broken_links_are_retried_with_one_key",),
    ),
    Mutant(
        "the client announces an older state after a later one",
        "section 8: state with revisions",
        "turno/client.py",
        "job.revision >= last.revision and ",
        "",
        (f"{OF_CLIENT}::test_broken_stream_reconnects_without_repeated_states",),
    ),
)
