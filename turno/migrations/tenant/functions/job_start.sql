-- A job's start and its end, in as few statements as they can be. Plans are made while the tables are small, kept when
-- they are not, and made once: what they look for is named, so no parameter could want another one.

CREATE OR REPLACE FUNCTION job_start(p_job uuid, p_token uuid, p_worker text)
RETURNS TABLE (payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer, errors integer,
               max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan SET lock_timeout = '1s' AS $$
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
        SELECT s.payload::jsonb, s.user_id::text, s.correlation_id::text, s.trace_context::text, s.attempt, s.errors, s.max_attempts,
               (SELECT c.state::jsonb FROM background_job_checkpoints c WHERE c.job_id = p_job),
               coalesce(s.expires_at <= clock_timestamp(), false), s.cancel_requested_at IS NOT NULL
        FROM started s;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not waiting; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
END $$;
