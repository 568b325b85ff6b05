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
