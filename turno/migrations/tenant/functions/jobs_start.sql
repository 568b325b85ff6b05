-- The same for several jobs of a type. Their tickets are locked in order, as everybody does who wants more than one.
CREATE OR REPLACE FUNCTION jobs_start(p_jobs uuid[], p_tokens uuid[], p_worker text)
RETURNS TABLE (job_id uuid, payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer,
               errors integer, max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = '1s' AS $$
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
        SELECT s.id, s.payload::jsonb, s.user_id::text, s.correlation_id::text, s.trace_context::text, s.attempt, s.errors, s.max_attempts,
               NULL::jsonb, coalesce(s.expires_at <= clock_timestamp(), false), s.cancel_requested_at IS NOT NULL
        FROM started s;
END $$;
