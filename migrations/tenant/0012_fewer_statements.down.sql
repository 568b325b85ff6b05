CREATE OR REPLACE FUNCTION job_start(p_job uuid, p_token uuid, p_worker text)
RETURNS TABLE (payload jsonb, user_id text, correlation_id text, trace_context text, attempt integer, errors integer,
               max_attempts integer, checkpoint jsonb, expired boolean, cancelled boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    run_number integer;
BEGIN
    PERFORM claim_hold(p_job, p_token);
    SELECT t.attempt INTO run_number FROM turno.tickets t WHERE t.job_id = p_job;
    RETURN QUERY
        UPDATE background_jobs j
        SET status = 'running', attempt = run_number, reason = NULL, started_at = coalesce(j.started_at, clock_timestamp())
        WHERE j.id = p_job AND j.status = 'pending'
        RETURNING j.payload, j.user_id, j.correlation_id, j.trace_context, j.attempt, j.errors, j.max_attempts,
                  (SELECT c.state FROM background_job_checkpoints c WHERE c.job_id = p_job),
                  coalesce(j.expires_at <= clock_timestamp(), false), j.cancel_requested_at IS NOT NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % is not waiting; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    INSERT INTO background_job_attempts (job_id, attempt, token, worker, backend_pid, backend_start)
    SELECT p_job, run_number, p_token, p_worker, a.pid, a.backend_start
    FROM pg_stat_get_activity(pg_backend_pid()) AS a;
END $$;

CREATE OR REPLACE FUNCTION job_complete(p_job uuid, p_token uuid, p_result jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    PERFORM attempt_check(p_token);
    PERFORM claim_hold(p_job, p_token);
    PERFORM attempt_end(p_job, 'completed', NULL);
    PERFORM job_end(p_job, 'completed', NULL, p_result, NULL);
END $$;

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
            WHERE j.id = ANY (mine) AND t.job_id = ANY (mine) AND t.job_id = j.id AND j.status = 'pending'
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
        WHERE j.id = ANY (p_jobs) AND j.id = c.id AND j.status = 'running'
        RETURNING j.id, j.user_id, j.type, j.run_at, c.run_ms
    ), told AS (
        INSERT INTO notifications (job_id, user_id, kind, data)
        SELECT c.id, c.user_id, 'completed',
               jsonb_build_object('type', c.type, 'reason', NULL, 'done', p.done, 'failed', p.failed, 'total', p.total)
        FROM completed c LEFT JOIN background_job_progress p ON p.job_id = ANY (p_jobs) AND p.job_id = c.id
    ), counted AS (
        INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
        SELECT turno.tenant_of(current_user), c.type, 'completed',
               -- The clock may have been set back, and int may overflow.
               least(2147483647, greatest(0, 1000 * extract(epoch FROM a.started_at - c.run_at)))::integer, c.run_ms
        FROM completed c JOIN closed a ON a.job_id = c.id
    )
    DELETE FROM turno.tickets t USING completed c JOIN closed a ON a.job_id = c.id
    WHERE t.job_id = ANY (p_jobs) AND t.job_id = c.id;
    GET DIAGNOSTICS ended = ROW_COUNT;
    IF ended < cardinality(p_jobs) THEN
        RAISE EXCEPTION 'a job of the group is not running; it must not be completed' USING ERRCODE = 'TU001';
    END IF;
END $$;
