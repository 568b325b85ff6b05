-- A job waits from the moment it could run, not from its creation: a poller, a retry or a job for
-- tonight has waited only since its time came. And it runs only while an attempt does.

CREATE OR REPLACE FUNCTION job_end(p_job uuid, p_status text, p_reason text, p_result jsonb, p_error jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
    ran record;
    waited_until timestamptz;
BEGIN
    UPDATE background_jobs
    SET status = p_status, reason = shortened(p_reason, 1000), result = p_result,
        error = CASE WHEN p_status <> 'completed' THEN coalesce(error_kept(p_error), error) END,
        finished_at = clock_timestamp()
    WHERE id = p_job AND status IN ('pending', 'running')
    RETURNING * INTO job;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_status = 'failed' THEN
        INSERT INTO background_jobs_dead_letter (job_id, type, version, user_id, payload, cause, error, attempts)
        SELECT job.id, job.type, job.version, job.user_id, job.payload, job.reason, job.error,
               coalesce(jsonb_agg(to_jsonb(a) - 'token' - 'job_id' ORDER BY a.attempt), '[]')
        FROM (SELECT * FROM background_job_attempts
              WHERE job_id = p_job ORDER BY attempt DESC LIMIT 100) AS a;
        INSERT INTO turno.dead_letters (job_id, tenant_id, type, error)
        VALUES (p_job, turno.tenant_of(current_user), job.type, turno.error_group(job.error));
    END IF;
    INSERT INTO notifications (job_id, user_id, kind, data)
    SELECT job.id, job.user_id, p_status,
           jsonb_build_object('type', job.type, 'reason', job.reason, 'done', p.done, 'failed', p.failed, 'total', p.total)
    FROM (SELECT) AS one LEFT JOIN background_job_progress p ON p.job_id = p_job;
    SELECT max(started_at) AS last_start,
           sum(greatest(interval '0', coalesce(finished_at, job.finished_at) - started_at)) AS time
    INTO ran FROM background_job_attempts WHERE job_id = p_job;
    -- A job that ended while it waited, waited to the end.
    waited_until := CASE WHEN ran.last_start >= job.run_at THEN ran.last_start ELSE job.finished_at END;
    INSERT INTO turno.outcomes (tenant_id, job_id, type, outcome, wait_ms, run_ms)
    VALUES (turno.tenant_of(current_user), p_job, job.type, p_status,
            -- The time to run may never have come, and int may overflow.
            least(2147483647, 1000 * extract(epoch FROM waited_until - least(job.run_at, waited_until)))::integer,
            least(2147483647, 1000 * extract(epoch FROM coalesce(ran.time, interval '0')))::integer);
    DELETE FROM turno.tickets WHERE job_id = p_job;
    RETURN true;
END $$;
