-- The worker or child that held this claim is dead. Its backend is ended first, so that its
-- locks go and nothing of it can commit later; then the claim is taken from it, if it still has it.
-- At the third crash the job is failed with the cause. Uncounted it is only handed back: its worker
-- was told to stop and could not wait for it.
CREATE OR REPLACE FUNCTION job_rescue(p_job uuid, p_token uuid, p_cause text, p_retry_in interval, p_counted boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    crash jsonb := jsonb_build_object('class', 'Crash', 'message', p_cause);
BEGIN
    PERFORM pg_terminate_backend(s.pid, 5000)
    FROM background_job_attempts a
    JOIN pg_stat_get_activity(a.backend_pid) s ON s.pid = a.backend_pid AND s.backend_start = a.backend_start
    WHERE a.job_id = p_job AND a.token = p_token AND a.finished_at IS NULL;

    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token AND state = 'running' FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'gone';
    END IF;
    SELECT * INTO job FROM background_jobs WHERE id = p_job FOR UPDATE;
    IF NOT FOUND OR job.status NOT IN ('pending', 'running') THEN
        DELETE FROM turno.tickets WHERE job_id = p_job;
        RETURN 'gone';
    END IF;
    IF job.status = 'pending' THEN
        -- Claimed but never started, for example because the login was refused: no fault of the job's.
        PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, job.error, 0, 0);
        RETURN 'pending';
    END IF;
    -- Not attempt_end: a rescue mends what it finds and refuses nothing.
    UPDATE background_job_attempts
    SET finished_at = clock_timestamp(), outcome = CASE WHEN p_counted THEN 'crashed' ELSE 'released' END, error = crash
    WHERE job_id = p_job AND finished_at IS NULL;
    IF job.cancel_requested_at IS NOT NULL THEN
        PERFORM job_end(p_job, 'cancelled', 'cancelled on request', NULL, crash);
        RETURN 'cancelled';
    ELSIF p_counted AND job.crashes >= 2 THEN
        UPDATE background_jobs SET crashes = crashes + 1 WHERE id = p_job;
        PERFORM job_end(p_job, 'failed', p_cause, NULL, crash);
        RETURN 'failed';
    END IF;
    PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_cause, crash, 0, p_counted::integer);
    RETURN 'pending';
END $$;
