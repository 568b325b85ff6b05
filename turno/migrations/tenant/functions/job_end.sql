CREATE OR REPLACE FUNCTION job_end(p_job uuid, p_status text, p_reason text, p_result jsonb, p_error jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    job background_jobs;
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
        -- Before the ticket goes: those behind it in an order wait for one of the two.
        INSERT INTO turno.dead_letters (job_id, tenant_id, type, error, concurrency_key, key_position)
        VALUES (p_job, turno.tenant_of(current_user), job.type, turno.error_group(job.error), job.concurrency_key,
                job.key_position);
    END IF;
    INSERT INTO notifications (job_id, user_id, kind, data)
    SELECT job.id, job.user_id, p_status,
           jsonb_build_object('type', job.type, 'reason', job.reason, 'done', p.done, 'failed', p.failed, 'total', p.total)
    FROM (SELECT) AS one LEFT JOIN background_job_progress p ON p.job_id = p_job
    -- Of a part its job tells.
    WHERE NOT EXISTS (SELECT FROM turno.tickets t WHERE t.job_id = p_job AND t.awaited_by IS NOT NULL);
    PERFORM outcome_put(p_job, p_status);
    IF p_status <> 'completed' THEN
        PERFORM parts_cancel(p_job, 'the job that it is a part of has ended');
        INSERT INTO turno.part_looks (tenant_id, job_id, early)
        SELECT t.tenant_id, t.awaited_by, true
        FROM turno.tickets t JOIN background_job_parts b ON b.job_id = t.awaited_by AND b.part_id = p_job
        WHERE t.job_id = p_job AND b.stops;
    END IF;
    DELETE FROM turno.tickets WHERE job_id = p_job;
    RETURN true;
END $$;
