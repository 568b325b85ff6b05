-- A job's start and its end, in as few statements as they can be. Plans are made while the tables are small, kept when
-- they are not, and made once: what they look for is named, so no parameter could want another one.

CREATE OR REPLACE FUNCTION job_start(p_job uuid, p_token uuid, p_worker text)
RETURNS TABLE (payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer, errors integer,
               max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    run_number integer;
BEGIN
    SELECT t.attempt INTO run_number FROM turno.tickets t WHERE t.job_id = p_job AND t.token = p_token FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    RETURN QUERY
        WITH started AS (
            UPDATE background_jobs j
            SET status = 'running', attempt = run_number, reason = NULL,
                started_at = coalesce(j.started_at, clock_timestamp())
            WHERE j.id = p_job AND j.status = 'pending'
            RETURNING j.*
        ), opened AS (
            INSERT INTO background_job_attempts (job_id, attempt, token, worker, backend_pid, backend_start)
            SELECT s.id, s.attempt, p_token, p_worker, a.pid, a.backend_start
            FROM started s, pg_stat_get_activity(pg_backend_pid()) AS a
        )
        SELECT s.payload, s.user_id, s.correlation_id, s.trace_context, s.attempt, s.errors, s.max_attempts,
               (SELECT c.state FROM background_job_checkpoints c WHERE c.job_id = p_job),
               coalesce(s.expires_at <= clock_timestamp(), false), s.cancel_requested_at IS NOT NULL
        FROM started s;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not waiting; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
END $$;

-- The ticket goes first: whoever has it may write the end, and whoever else wants it waits for that.
CREATE OR REPLACE FUNCTION job_complete(p_job uuid, p_token uuid, p_result jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM attempt_check(p_token);
    WITH held AS (
        DELETE FROM turno.tickets t WHERE t.job_id = p_job AND t.token = p_token RETURNING t.tenant_id
    ), completed AS (
        UPDATE background_jobs j
        SET status = 'completed', reason = NULL, result = p_result, error = NULL, finished_at = clock_timestamp()
        FROM held WHERE j.id = p_job AND j.status = 'running'
        RETURNING held.tenant_id, j.user_id, j.type, j.run_at, j.finished_at
    ), closed AS (
        UPDATE background_job_attempts a SET finished_at = c.finished_at, outcome = 'completed'
        FROM completed c WHERE a.job_id = p_job AND a.finished_at IS NULL
        RETURNING a.started_at
    ), told AS (
        INSERT INTO notifications (job_id, user_id, kind, data)
        SELECT p_job, c.user_id, 'completed',
               jsonb_build_object('type', c.type, 'reason', NULL, 'done', p.done, 'failed', p.failed, 'total', p.total)
        FROM completed c LEFT JOIN background_job_progress p ON p.job_id = p_job
    )
    INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
    SELECT c.tenant_id, c.type, 'completed',
           -- The clock may have been set back, and int may overflow.
           least(2147483647, greatest(0, 1000 * extract(epoch FROM closed.started_at - c.run_at)))::integer,
           least(2147483647, 1000 * extract(epoch FROM (
               SELECT sum(greatest(interval '0', coalesce(a.finished_at, c.finished_at) - a.started_at))
               FROM background_job_attempts a WHERE a.job_id = p_job)))::integer
    FROM completed c, closed;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost, or it was not started; this attempt must stop', p_job
            USING ERRCODE = 'TU001';
    END IF;
END $$;

-- The same for several jobs of a type. Their tickets are locked in order, as everybody does who wants more than one.
CREATE OR REPLACE FUNCTION jobs_start(p_jobs uuid[], p_tokens uuid[], p_worker text)
RETURNS TABLE (job_id uuid, payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer,
               errors integer, max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
        WITH held AS (
            SELECT t.job_id, t.token, t.attempt FROM turno.tickets t
            WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens) ORDER BY t.job_id FOR UPDATE
        ), started AS (
            UPDATE background_jobs j
            SET status = 'running', attempt = h.attempt, reason = NULL,
                started_at = coalesce(j.started_at, clock_timestamp())
            FROM held h
            WHERE j.id = ANY (p_jobs) AND j.id = h.job_id AND j.status = 'pending'
            RETURNING j.*, h.token
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
    WITH held AS (
        SELECT t.job_id, t.tenant_id FROM turno.tickets t
        WHERE t.job_id = ANY (p_jobs) AND t.token = ANY (p_tokens) ORDER BY t.job_id FOR UPDATE
    ), completed AS (
        UPDATE background_jobs j
        SET status = 'completed', reason = NULL, result = c.result::jsonb, error = NULL, finished_at = clock_timestamp()
        FROM unnest(p_jobs, p_results, p_run_ms) AS c (id, result, run_ms), held h
        WHERE j.id = ANY (p_jobs) AND j.id = c.id AND c.id = h.job_id AND j.status = 'running'
        RETURNING j.id, j.user_id, j.type, j.run_at, j.finished_at, c.run_ms, h.tenant_id
    ), closed AS (
        UPDATE background_job_attempts a SET finished_at = c.finished_at, outcome = 'completed'
        FROM completed c WHERE a.job_id = ANY (p_jobs) AND a.job_id = c.id AND a.finished_at IS NULL
        RETURNING a.job_id, a.started_at
    ), told AS (
        INSERT INTO notifications (job_id, user_id, kind, data)
        SELECT c.id, c.user_id, 'completed',
               jsonb_build_object('type', c.type, 'reason', NULL, 'done', p.done, 'failed', p.failed, 'total', p.total)
        FROM completed c LEFT JOIN background_job_progress p ON p.job_id = ANY (p_jobs) AND p.job_id = c.id
    ), gone AS (
        DELETE FROM turno.tickets t USING held h WHERE t.job_id = ANY (p_jobs) AND t.job_id = h.job_id
    )
    INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
    SELECT c.tenant_id, c.type, 'completed',
           least(2147483647, greatest(0, 1000 * extract(epoch FROM a.started_at - c.run_at)))::integer, c.run_ms
    FROM completed c JOIN closed a ON a.job_id = c.id;
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'the claim on a job of the group was lost, or it was not started; it must not be completed'
            USING ERRCODE = 'TU001';
    END IF;
END $$;
