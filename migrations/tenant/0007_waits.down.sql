-- Waits are counted from a job's creation again.
CREATE OR REPLACE FUNCTION job_end(p_job uuid, p_status text, p_reason text, p_result jsonb, p_error jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
BEGIN
    UPDATE background_jobs
    SET status = p_status, reason = p_reason, result = p_result,
        error = CASE WHEN p_status <> 'completed' THEN coalesce(p_error, error) END,
        finished_at = clock_timestamp()
    WHERE id = p_job AND status IN ('pending', 'running')
    RETURNING * INTO job;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_status = 'failed' THEN
        INSERT INTO background_jobs_dead_letter (job_id, type, version, user_id, payload, cause, error, attempts)
        SELECT job.id, job.type, job.version, job.user_id, job.payload, p_reason, job.error,
               coalesce(jsonb_agg(to_jsonb(a) - 'token' - 'job_id' ORDER BY a.attempt), '[]')
        FROM background_job_attempts a WHERE a.job_id = p_job;
    END IF;
    INSERT INTO notifications (job_id, user_id, kind, data)
    SELECT job.id, job.user_id, p_status,
           jsonb_build_object('type', job.type, 'reason', p_reason, 'done', p.done, 'failed', p.failed, 'total', p.total)
    FROM (SELECT) AS one LEFT JOIN background_job_progress p ON p.job_id = p_job;
    INSERT INTO turno.outcomes (tenant_id, type, outcome, wait_ms, run_ms)
    VALUES (turno.tenant_of(current_user), job.type, p_status,
            -- A job cancelled unstarted waited to the end; the clock may have been set back, and int may overflow.
            least(2147483647, greatest(0, 1000 * extract(epoch FROM coalesce(job.started_at, job.finished_at) - job.created_at)))::integer,
            least(2147483647, greatest(0, 1000 * extract(epoch FROM job.finished_at - coalesce(job.started_at, job.finished_at))))::integer);
    DELETE FROM turno.tickets WHERE job_id = p_job;
    RETURN true;
END $$;
