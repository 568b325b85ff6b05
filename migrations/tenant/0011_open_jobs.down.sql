DROP INDEX background_jobs_open, background_jobs_expiring, background_jobs_parked;
CREATE INDEX background_jobs_open ON background_jobs (user_id) WHERE status IN ('pending', 'running');
CREATE INDEX background_jobs_expiring ON background_jobs (expires_at) WHERE status = 'pending' AND expires_at IS NOT NULL;
CREATE INDEX background_jobs_parked ON background_jobs (id) WHERE status = 'pending' AND run_at = 'infinity';

-- Hold the claim until the transaction ends, or raise: whoever lost it writes nothing.
CREATE OR REPLACE FUNCTION claim_hold(p_job uuid, p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token AND state = 'running' FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
END $$;

-- accepted: a new job.  replayed: the first job under this key, with the same body.
-- conflict: the key was used with another body.  quota: the user has enough jobs waiting.
CREATE OR REPLACE FUNCTION job_enqueue(
    p_type text, p_version smallint, p_queue text, p_backend text, p_priority smallint, p_max_attempts integer,
    p_payload jsonb, p_payload_hash bytea, p_user text, p_run_at timestamptz, p_expires_at timestamptz,
    p_idempotency_key text, p_correlation_id text, p_trace_context text, p_parent uuid, p_pending_limit integer)
RETURNS TABLE (job_id uuid, verdict text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    due timestamptz := coalesce(p_run_at, clock_timestamp());
    first_hash bytea;
BEGIN
    IF p_pending_limit IS NOT NULL THEN
        -- One user's submissions take turns, or two at once would both see room for one.
        PERFORM pg_advisory_xact_lock(turno.tenant_of(current_user), hashtext(p_user));
        -- Jobs parked for a person do not count: their user could never free the place.
        IF (SELECT count(*) FROM (SELECT FROM background_jobs
                                  WHERE user_id = p_user AND status IN ('pending', 'running') AND run_at < 'infinity'
                                  LIMIT p_pending_limit) AS open) >= p_pending_limit THEN
            verdict := 'quota';
        END IF;
    END IF;
    LOOP
        IF verdict IS NULL THEN
            INSERT INTO background_jobs (type, version, queue, priority, payload, payload_hash, user_id, correlation_id,
                                         trace_context, idempotency_key, max_attempts, run_at, expires_at, parent_id)
            VALUES (p_type, p_version, p_queue, p_priority, p_payload, p_payload_hash, p_user, p_correlation_id,
                    p_trace_context, p_idempotency_key, p_max_attempts, due, p_expires_at, p_parent)
            ON CONFLICT (user_id, type, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING
            RETURNING id INTO job_id;
            IF FOUND THEN
                verdict := 'accepted';
                PERFORM ticket_put(job_id, p_queue, p_type, p_version, p_priority, due, p_backend, 0);
                EXIT;
            END IF;
        END IF;
        -- A statement of its own: its snapshot sees the winner that the insert waited for.
        SELECT id, payload_hash INTO job_id, first_hash FROM background_jobs
        WHERE user_id = p_user AND type = p_type AND idempotency_key = p_idempotency_key;
        IF FOUND THEN
            verdict := CASE WHEN first_hash = p_payload_hash THEN 'replayed' ELSE 'conflict' END;
        END IF;
        -- Neither inserted nor found: the first job was purged between the two, and the key is free again.
        EXIT WHEN verdict IS NOT NULL;
    END LOOP;
    RETURN NEXT;
END $$;

-- Shown at once from the handler's second session. A plain look at the token: it must never
-- wait for the job's own transaction, which may hold the ticket. Never goes back.
CREATE OR REPLACE FUNCTION job_progress(p_job uuid, p_token uuid, p_done integer, p_total integer, p_message text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token AND state = 'running';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    INSERT INTO background_job_progress AS p (job_id, done, total, message) VALUES (p_job, p_done, p_total, p_message)
    ON CONFLICT (job_id) DO UPDATE
    SET done = greatest(p.done, excluded.done), total = greatest(p.total, excluded.total),
        message = coalesce(excluded.message, p.message), revision = p.revision + 1, updated_at = clock_timestamp();
    RETURN (SELECT cancel_requested_at IS NOT NULL FROM background_jobs WHERE id = p_job);
END $$;

-- Make the tickets agree with the jobs again; returns how many rows had to change.
CREATE OR REPLACE FUNCTION job_repair(p_backend text, p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    changed bigint;
    n bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO n FROM background_jobs j
        WHERE j.status IN ('pending', 'running') AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id);
        SELECT n + count(*) INTO changed FROM turno.tickets t
        WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = t.job_id AND j.status IN ('pending', 'running'));
        RETURN changed;
    END IF;
    -- Running without a ticket: its claim can never be proved again, so it waits once more.
    WITH lost AS (
        SELECT j.id FROM background_jobs j
        WHERE j.status = 'running' AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
        FOR UPDATE SKIP LOCKED
    ), closed AS (
        UPDATE background_job_attempts a SET finished_at = clock_timestamp(), outcome = 'released'
        FROM lost WHERE a.job_id = lost.id AND a.finished_at IS NULL
    )
    UPDATE background_jobs j SET status = 'pending', reason = 'its ticket was missing', run_at = clock_timestamp()
    FROM lost WHERE j.id = lost.id AND j.status = 'running';
    GET DIAGNOSTICS changed = ROW_COUNT;
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                               crashes)
    SELECT j.id, turno.tenant_of(current_user), j.queue, j.type, j.version, j.priority, j.run_at,
           CASE WHEN j.run_at > clock_timestamp() THEN 'scheduled' ELSE 'ready' END, p_backend, j.attempt, j.crashes
    FROM background_jobs j
    WHERE j.status = 'pending' AND NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = j.id)
    -- Held, so that whoever cancels it meanwhile waits and then finds the ticket to remove.
    FOR UPDATE SKIP LOCKED
    ON CONFLICT (job_id) DO NOTHING;
    GET DIAGNOSTICS n = ROW_COUNT;
    changed := greatest(changed, n);
    DELETE FROM turno.tickets t
    WHERE NOT EXISTS (SELECT FROM background_jobs j WHERE j.id = t.job_id AND j.status IN ('pending', 'running'));
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN changed + n;
END $$;

-- Which of these claims are still held; they stay so until the transaction ends. Waits for a commit under way
-- that may have ended them: so a worker that lost the answer to its COMMIT asks here what became of it.
CREATE OR REPLACE FUNCTION jobs_held(p_jobs uuid[], p_tokens uuid[]) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
-- Plans are made while the tables are small and kept when they are not.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN ARRAY(
        SELECT t.job_id FROM unnest(p_jobs, p_tokens) AS c (job_id, token)
        JOIN turno.tickets t ON t.job_id = c.job_id AND t.token = c.token AND t.state = 'running'
        ORDER BY t.job_id FOR UPDATE OF t);
END $$;

CREATE OR REPLACE FUNCTION job_expire(p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    expired bigint := 0;
    job uuid;
BEGIN
    FOR job IN SELECT id FROM background_jobs
               WHERE status = 'pending' AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT 1000 LOOP
        IF p_dry_run THEN
            expired := expired + 1;
            CONTINUE;
        END IF;
        -- A ticket that someone holds right now is being claimed: job_start will see the expiry.
        PERFORM FROM turno.tickets WHERE job_id = job AND state <> 'running' FOR UPDATE SKIP LOCKED;
        IF FOUND AND job_end(job, 'cancelled', 'expired', NULL, NULL) THEN
            expired := expired + 1;
        END IF;
    END LOOP;
    RETURN expired;
END $$;

-- Open the attempts of those that are still held, in a transaction of their own, and hand out what their
-- handler needs.
CREATE OR REPLACE FUNCTION jobs_start(p_jobs uuid[], p_tokens uuid[], p_worker text)
RETURNS TABLE (job_id uuid, payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer,
               errors integer, max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    mine uuid[] := jobs_held(p_jobs, p_tokens);
BEGIN
    RETURN QUERY
        WITH started AS (
            UPDATE background_jobs j
            SET status = 'running', attempt = t.attempt, reason = NULL,
                started_at = coalesce(j.started_at, clock_timestamp())
            FROM turno.tickets t
            WHERE t.job_id = ANY (mine) AND j.id = t.job_id AND j.status = 'pending'
            RETURNING j.*, t.token
        ), opened AS (
            INSERT INTO background_job_attempts (job_id, attempt, token, worker, backend_pid, backend_start)
            SELECT s.id, s.attempt, s.token, p_worker, a.pid, a.backend_start
            FROM pg_stat_get_activity(pg_backend_pid()) AS a, started s
        )
        SELECT s.id, s.payload, s.user_id, s.correlation_id, s.trace_context, s.attempt, s.errors, s.max_attempts,
               NULL::jsonb, coalesce(s.expires_at <= clock_timestamp(), false), s.cancel_requested_at IS NOT NULL
        FROM started s;
END $$;

-- Complete all of these or none. p_mark is what the executor's BEGIN has set; p_run_ms is how long each one's
-- handler took, for the metrics: their attempts are as long as the group's transaction.
CREATE OR REPLACE FUNCTION jobs_complete(p_mark uuid, p_jobs uuid[], p_tokens uuid[], p_results text[], p_run_ms integer[])
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    ended bigint;
BEGIN
    PERFORM attempt_check(p_mark);
    IF cardinality(jobs_held(p_jobs, p_tokens)) < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'the claim on a job of the group was lost; it must not be completed' USING ERRCODE = 'TU001';
    END IF;
    WITH closed AS (
        UPDATE background_job_attempts SET finished_at = clock_timestamp(), outcome = 'completed'
        WHERE job_id = ANY (p_jobs) AND finished_at IS NULL
        RETURNING job_id, started_at
    ), completed AS (
        UPDATE background_jobs j
        SET status = 'completed', reason = NULL, result = c.result::jsonb, error = NULL,
            finished_at = clock_timestamp()
        FROM unnest(p_jobs, p_results, p_run_ms) AS c (id, result, run_ms)
        WHERE j.id = c.id AND j.status = 'running'
        RETURNING j.id, j.user_id, j.type, j.run_at, c.run_ms
    ), told AS (
        INSERT INTO notifications (job_id, user_id, kind, data)
        SELECT c.id, c.user_id, 'completed',
               jsonb_build_object('type', c.type, 'reason', NULL, 'done', p.done, 'failed', p.failed, 'total', p.total)
        FROM completed c LEFT JOIN background_job_progress p ON p.job_id = c.id
    ), counted AS (
        INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
        SELECT turno.tenant_of(current_user), c.type, 'completed',
               -- The clock may have been set back, and int may overflow.
               least(2147483647, greatest(0, 1000 * extract(epoch FROM a.started_at - c.run_at)))::integer, c.run_ms
        FROM completed c JOIN closed a ON a.job_id = c.id
    )
    DELETE FROM turno.tickets t USING completed c JOIN closed a ON a.job_id = c.id WHERE t.job_id = c.id;
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'a job of the group is not running; it must not be completed' USING ERRCODE = 'TU001';
    END IF;
END $$;

-- Tickets come before effects: those of the jobs that settling this one would wake.
CREATE OR REPLACE FUNCTION waiting_hold(p_key text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM turno.tickets
    WHERE job_id IN (SELECT unnest(waiting) FROM external_effects WHERE key = p_key) ORDER BY job_id FOR UPDATE;
END $$;

CREATE OR REPLACE FUNCTION effect_close(p_key text, p_intent uuid, p_state text, p_result jsonb, p_by text) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    parked uuid[];
BEGIN
    SELECT waiting INTO parked FROM external_effects WHERE key = p_key AND state = 'intended' AND token = p_intent FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    UPDATE external_effects
    SET state = p_state, result = p_result, waiting = '{}', settled_at = clock_timestamp(), settled_by = p_by
    WHERE key = p_key;
    WITH woken AS (
        UPDATE background_jobs
        SET run_at = clock_timestamp(), error = NULL, reason = format('%s was settled as %s by %s', p_key, p_state, p_by)
        WHERE id = ANY (parked) AND status = 'pending' AND run_at = 'infinity'
        RETURNING id, run_at, attempt, reason
    ), told AS (
        INSERT INTO background_job_events (job_id, old_status, new_status, attempt, reason)
        SELECT id, 'pending', 'pending', attempt, reason FROM woken
    ), answered AS (
        UPDATE notifications n SET read_at = clock_timestamp()
        FROM woken WHERE n.job_id = woken.id AND n.kind = 'needs_review' AND n.read_at IS NULL
    ), ready AS (
        UPDATE turno.tickets t SET state = 'ready', run_at = woken.run_at FROM woken WHERE t.job_id = woken.id
    )
    SELECT coalesce(array_agg(id), '{}') INTO parked FROM woken;
    RETURN parked;
END $$;

ALTER FUNCTION job_start RESET enable_seqscan;
ALTER FUNCTION job_progress RESET enable_seqscan;
ALTER FUNCTION job_items RESET enable_seqscan;
ALTER FUNCTION job_checkpoint RESET enable_seqscan;
ALTER FUNCTION job_complete RESET enable_seqscan;
ALTER FUNCTION job_fail RESET enable_seqscan;
ALTER FUNCTION job_release RESET enable_seqscan;
ALTER FUNCTION job_abandon RESET enable_seqscan;
ALTER FUNCTION job_hold RESET enable_seqscan;
ALTER FUNCTION job_park RESET enable_seqscan;
ALTER FUNCTION job_cancel_requested RESET enable_seqscan;
ALTER FUNCTION effect_intend RESET enable_seqscan;
ALTER FUNCTION effect_reissue RESET enable_seqscan;
ALTER FUNCTION effect_settle RESET enable_seqscan;
ALTER FUNCTION effect_let_go RESET enable_seqscan;
ALTER FUNCTION effect_decide RESET enable_seqscan;
ALTER FUNCTION effect_caller_gone RESET enable_seqscan;
ALTER FUNCTION job_enqueue RESET enable_seqscan;
ALTER FUNCTION job_cancel RESET enable_seqscan;
ALTER FUNCTION job_retry RESET enable_seqscan;
ALTER FUNCTION job_rescue RESET enable_seqscan;
ALTER FUNCTION job_expire RESET enable_seqscan;
ALTER FUNCTION notification_read RESET enable_seqscan;
