-- Back to waiting; the caller holds the ticket. A zero delay is ready at once. Only a job in doubt waits without a
-- time: any other job would never run, in no list of reviews.
CREATE OR REPLACE FUNCTION job_requeue(
    p_job uuid, p_run_at timestamptz, p_reason text, p_error jsonb, p_errors integer, p_crashes integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    latest integer;
BEGIN
    IF p_run_at = 'infinity' AND NOT EXISTS (SELECT FROM background_jobs WHERE id = p_job AND in_doubt IS NOT NULL) THEN
        RAISE EXCEPTION 'run_at is finite for a job without a doubt' USING ERRCODE = 'check_violation';
    END IF;
    UPDATE background_jobs
    SET status = 'pending', run_at = p_run_at, reason = shortened(p_reason, 1000), error = error_kept(p_error),
        errors = errors + p_errors, crashes = crashes + p_crashes
    WHERE id = p_job AND status IN ('pending', 'running')
    RETURNING attempt INTO latest;
    -- A job that runs for ever keeps the history of its last hundred attempts, of two hundred at most.
    IF latest % 100 = 0 AND latest > 100 THEN
        DELETE FROM background_job_attempt_rows WHERE job_id = p_job AND attempt <= latest - 100;
        DELETE FROM background_job_event_rows WHERE job_id = p_job AND attempt BETWEEN 1 AND latest - 100;
    END IF;
    UPDATE turno.tickets
    SET state = turno.due_state(p_run_at, concurrency_key), run_at = p_run_at, worker_id = NULL, token = NULL,
        published_at = NULL, cancel_at = NULL, crashes = crashes + p_crashes
    WHERE job_id = p_job;
END $$;
