"""Guards of the web: who asks, for which tenant, with which payload, how often."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SCOPE = "app/web/tenant_scope.py"
TOKENS = "app/web/tokens.py"
JOBS = "tests/integration/test_api_jobs.py"
TURNS = "tests/integration/test_turns.py"
REFUSALS = "tests/integration/test_api_refusals.py"
FOREIGN = "tests/integration/test_api_isolation.py"
LARGE = "tests/integration/test_large_bodies.py"
CONNECTIONS = "tests/integration/test_connections.py"
SLOW = "tests/faults/test_slow_clients.py"
FORGED = "tests/unit/test_tokens.py::test_forged_tokens_are_refused"
TOKEN = "section 8: a fixed algorithm list; exp, iat, aud, iss, sub required"
SAME = "section 8: foreign and unknown ids give the same 404"
HELD = "promise 9: one tenant's requests hold the web for nobody else"
ONE_KEY = "section 6: one key and one body are one job"
ONE_RETRY = "section 3: retrying is a compare-and-set that makes one new job"

MUTANTS = (
    Mutant(
        "users see each other's jobs",
        SAME,
        SCOPE,
        "return None if self.principal.operator else self.principal.user",
        "return None",
        (f"{FOREIGN}::test_every_id_of_others_is_unknown[GET-/api/jobs/{{}}-job]",),
    ),
    Mutant(
        "users read each other's notifications",
        SAME,
        "migrations/tenant/functions/notification_read.sql",
        "WHERE id = p_notification AND user_id = p_user;",
        "WHERE id = p_notification;",
        (f"{FOREIGN}::test_every_id_of_others_is_unknown[PATCH-/api/notifications/{{}}/read-notification]",),
    ),
    Mutant(
        "a malformed id is told from an unknown one",
        SAME,
        "app/web/job_id.py",
        "        raise unknown\n",
        '        raise ValueError("no id")\n',
        (f"{FOREIGN}::test_every_malformed_id_is_unknown[x-GET-/api/jobs/{{}}-job]",),
    ),
    Mutant(
        "any tenant may be named in X-Schema",
        "promise 5: the token says which tenants are possible",
        SCOPE,
        "if principal.operator or slug in principal.tenants:",
        "if slug:",
        (f"{REFUSALS}::test_a_tenant_that_is_not_the_token_s_is_the_same_404[south]",),
    ),
    Mutant(
        "anybody is an operator",
        "section 8: admin routes are for operators only",
        SCOPE,
        "    if not scope.principal.operator:\n",
        "    if False:\n",
        (f"{FOREIGN}::test_users_are_no_operators",),
    ),
    Mutant(
        "a revoked token is good",
        "section 8: tokens_valid_from",
        SCOPE,
        "if principal.issued_at < tenant.tokens_valid_from:",
        "if False:",
        (f"{REFUSALS}::test_a_revoked_token_opens_nothing_and_a_newer_one_does",),
    ),
    Mutant(
        "a token of a clock that is ahead outlives its revocation",
        "section 8: tokens_valid_from",
        TOKENS,
        "issued_at - LEEWAY_SECONDS",
        "issued_at",
        (f"{REFUSALS}::test_a_revoked_token_opens_nothing_and_a_newer_one_does",),
    ),
    Mutant(
        "a token chooses its algorithm",
        TOKEN,
        TOKENS,
        "                algorithms=self._algorithms,\n",
        '                algorithms=[*self._algorithms, "HS512"],\n',
        (f"{FORGED}[alg not in the list]",),
    ),
    Mutant(
        "a token for another service is good",
        TOKEN,
        TOKENS,
        'options={"require": REQUIRED},',
        'options={"require": REQUIRED, "verify_aud": False},',
        (f"{FORGED}[wrong aud]",),
    ),
    Mutant(
        "a token may be good for ever",
        TOKEN,
        TOKENS,
        'REQUIRED = ["exp", "iat", "aud", "iss", "sub"]',
        'REQUIRED = ["iat", "aud", "iss", "sub"]',
        (f"{FORGED}[expires never]",),
    ),
    Mutant(
        "unknown fields of a payload are passed over",
        "section 6: the payload is validated before any row exists",
        "app/web/payloads.py",
        'ConfigDict(extra="forbid")',
        'ConfigDict(extra="ignore")',
        (f"{REFUSALS}::test_all_that_is_wrong_is_told_at_once",),
    ),
    Mutant(
        "a name that stands twice is looked for in quadratic time",
        HELD,
        "app/web/request_body.py",
        "times = Counter(name for name, _ in pairs)\n        twice = next(name for name in times if times[name] > 1)",
        "names = [name for name, _ in pairs]\n        twice = next(name for name in names if names.count(name) > 1)",
        (f"{LARGE}::test_the_last_of_many_names_stands_twice",),
    ),
    Mutant(
        "an order that stands twice is looked for in quadratic time",
        HELD,
        "handlers/batch_invoicing.py",
        "for order, times in Counter(payload.order_ids).items() if times > 1",
        "for order in {*payload.order_ids} if payload.order_ids.count(order) > 1",
        (f"{LARGE}::test_the_last_of_many_orders_stands_twice",),
    ),
    Mutant(
        "a batch has no limit",
        HELD,
        "handlers/batch_invoicing.py",
        "AtMost(LARGEST_BATCH)",
        "AtMost(LARGEST_BATCH**2)",
        (f"{LARGE}::test_a_batch_has_a_documented_limit",),
    ),
    Mutant(
        "every problem of a body is told",
        HELD,
        "app/web/problems.py",
        "list(errors[:MOST_LISTED])",
        "list(errors)",
        (f"{LARGE}::test_fields_that_nobody_knows_are_cut_with_their_number",),
    ),
    Mutant(
        "every problem of a payload is named before all but some are cut",
        HELD,
        "app/web/payloads.py",
        "if (count := error.error_count()) > MOST_NAMED:",
        "if (count := error.error_count()) < 0:",
        (f"{LARGE}::test_a_quarter_of_a_million_items_are_wrong",),
    ),
    Mutant(
        "a worker passes over fields of another version",
        "section 6: the payload is validated before any row exists",
        "app/jobs/payload.py",
        "if unknown := set(value) - hints.keys():",
        "value = {name: value[name] for name in hints if name in value}\n        if unknown := ():",
        ("tests/unit/test_payload.py::test_a_field_of_another_version_is_refused_by_name",),
    ),
    Mutant(
        "a user may have any number of jobs waiting",
        "section 8: 429",
        "migrations/tenant/functions/job_enqueue.sql",
        "        verdict := 'quota';\n",
        "        NULL;\n",
        (f"{JOBS}::test_the_quota_is_per_user_and_says_when_to_come_back",),
    ),
    Mutant(
        "two requests at once see the same room",
        "section 8: 429",
        "migrations/tenant/functions/quota_reached.sql",
        "    PERFORM pg_advisory_xact_lock(turno.tenant_of(current_user), hashtext(p_user));\n",
        "",
        (
            f"{TURNS}::test_the_second_of_two_submissions_counts_the_first",
            f"{TURNS}::test_the_second_of_two_retries_counts_the_first",
        ),
    ),
    Mutant(
        "who cancels and retries has any number of jobs waiting",
        "section 8: 429",
        "migrations/tenant/functions/job_retry.sql",
        "ELSIF quota_reached(old.user_id, p_pending_limit) THEN",
        "ELSIF false THEN",
        (f"{JOBS}::test_a_retry_counts_as_a_submission_does",),
    ),
    Mutant(
        "a key may stand for two bodies",
        ONE_KEY,
        "migrations/tenant/functions/job_enqueue.sql",
        "CASE WHEN first_hash = p_payload_hash THEN 'replayed' ELSE 'conflict' END",
        "'replayed'",
        (f"{JOBS}::test_the_same_key_with_another_body_is_refused",),
    ),
    Mutant(
        "a second request with a key is a fault",
        ONE_KEY,
        "migrations/tenant/functions/job_enqueue.sql",
        "        ON CONFLICT (user_id, type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING\n",
        "",
        (f"{JOBS}::test_the_same_key_and_body_are_one_job",),
    ),
    Mutant(
        "a slow client is never given up",
        HELD,
        "cli/client_connection.py",
        "return min(self.latest, self.began + PATIENCE + self.moved / SLOWEST)",
        "return inf",
        (f"{SLOW}::test_slow_clients_hold_no_thread_and_are_ended",),
    ),
    Mutant(
        "a thread waits until its answer is taken",
        HELD,
        "cli/client_connection.py",
        "        raw.settimeout(0)\n",
        "        raw.settimeout(60)\n",
        (f"{SLOW}::test_slow_clients_hold_no_thread_and_are_ended",),
    ),
    Mutant(
        "slow clients fill the memory",
        HELD,
        "cli/stream_worker.py",
        "if self._held > max(MOST_HELD, 4 * self.wsgi.largest_body):",
        "if False:",
        (f"{SLOW}::test_what_is_kept_for_slow_clients_is_bounded",),
    ),
    Mutant(
        "slow clients take every connection",
        HELD,
        "cli/stream_worker.py",
        "if self.nr_conns >= self.worker_connections:",
        "if False:",
        (f"{SLOW}::test_a_client_finds_room_beside_any_number_of_slow_ones",),
    ),
    Mutant(
        "the rest of a refused body is the next request",
        "section 8: a request is what its sender sent",
        "cli/stream_worker.py",
        "return super().handle(conn) and not conn.cut",
        "return super().handle(conn)",
        (f"{CONNECTIONS}::test_of_a_body_that_is_too_large_nothing_is_taken_for_a_request[/nowhere]",),
    ),
    Mutant(
        "a key counts only while its job's times lie ahead",
        ONE_KEY,
        "app/web/submission.py",
        "if problems or (untimely and not _used(call, handler.type, key)):",
        "if problems or untimely:",
        (f"{JOBS}::test_a_key_brings_the_first_answer_also_after_the_job_s_times_have_passed",),
    ),
    Mutant(
        "a job may have been due for two thousand years",
        HELD,
        "app/web/submission.py",
        "if run_at and not now - LONGEST_PAST < run_at <= now + FARTHEST:",
        "if run_at and run_at > now + FARTHEST:",
        (f"{REFUSALS}::test_a_wrong_field_is_named_and_nothing_is_stored[body42-run_at]",),
    ),
    Mutant(
        "the loser of a race for a key hears nothing",
        ONE_KEY,
        "migrations/tenant/functions/job_enqueue.sql",
        "WHERE user_id = p_user AND type = p_type AND idempotency_key = p_idempotency_key;\n",
        "WHERE false;\n        verdict := 'unknown';\n",
        (f"{TURNS}::test_the_second_of_two_with_one_key_gets_the_first_one_s_job[same body]",),
    ),
    Mutant(
        "a job may be retried twice",
        ONE_RETRY,
        "migrations/tenant/functions/job_retry.sql",
        "ELSIF old.successor_id IS NOT NULL THEN",
        "ELSIF false THEN",
        (f"{JOBS}::test_an_ended_job_is_retried_as_one_new_job[failed]",),
    ),
    Mutant(
        "two retries at once make two jobs",
        ONE_RETRY,
        "migrations/tenant/functions/job_retry.sql",
        "WHERE j.id = p_job AND (p_user IS NULL OR j.user_id = p_user) FOR UPDATE;",
        "WHERE j.id = p_job AND (p_user IS NULL OR j.user_id = p_user);",
        (f"{TURNS}::test_the_second_of_two_retries_finds_the_first_one_s_job",),
    ),
    Mutant(
        "a hint that fails is the caller's error",
        "promise 1: the row is committed before the answer, and hints are only hints",
        "app/dispatch/dispatcher.py",
        "        except Exception:\n",
        "        except ZeroDivisionError:\n",
        (f"{JOBS}::test_a_broken_queue_is_not_the_caller_s_error",),
    ),
)
