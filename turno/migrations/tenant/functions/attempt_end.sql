-- The attempt ends, and does not complete its job. Returns the new status of the job.
--   error: the job runs again after p_retry_in; without it the job is failed for good. p_reset_errors: the attempt was
--     healthy for so long that the errors before it no longer count.
--   rescheduled: by its handler; the job starts again without errors and crashes.
--   released: handed back, nothing is counted. With p_doubt the job is parked until a person settles the doubt.
--   cancelled: the handler found its job pointless.
-- A job with a requested cancellation ends with its attempt. A lost claim, or an attempt without a row, raises.
CREATE OR REPLACE FUNCTION attempt_end(
    p_job uuid, p_token uuid, p_outcome text, p_reason text, p_error jsonb, p_run_at timestamptz, p_retry_in interval,
    p_reset_errors boolean, p_doubt text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    cancelled boolean := claim_hold(p_job, p_token);
BEGIN
    UPDATE background_job_attempt_rows
    SET finished_at = clock_timestamp(), outcome = p_outcome, error = error_kept(p_error)
    WHERE job_id = p_job AND finished_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no attempt of job % is open; start it first', p_job USING ERRCODE = 'TU001';
    END IF;
    IF cancelled AND job_end(p_job, 'cancelled', 'cancelled on request', NULL, p_error) THEN
        RETURN 'cancelled';
    END IF;
    CASE p_outcome
        WHEN 'error' THEN
            UPDATE background_jobs
            SET errors = CASE WHEN p_reset_errors THEN 0 ELSE errors END + (p_retry_in IS NULL)::integer
            WHERE id = p_job AND (p_reset_errors OR p_retry_in IS NULL);
            IF p_retry_in IS NULL THEN
                PERFORM job_end(p_job, 'failed', p_reason, NULL, p_error);
                RETURN 'failed';
            END IF;
        WHEN 'rescheduled' THEN
            UPDATE background_jobs SET errors = 0, crashes = 0 WHERE id = p_job AND errors + crashes > 0;
            UPDATE turno.tickets SET crashes = 0 WHERE job_id = p_job AND crashes > 0;
        WHEN 'cancelled' THEN
            PERFORM job_end(p_job, 'cancelled', p_reason, NULL, NULL);
            RETURN 'cancelled';
        WHEN 'released' THEN NULL;
    END CASE;
    PERFORM outcome_put(p_job, CASE p_outcome WHEN 'error' THEN 'retried' ELSE p_outcome END);
    IF p_doubt IS NULL THEN
        PERFORM job_requeue(p_job, coalesce(p_run_at, clock_timestamp() + p_retry_in), p_reason, p_error,
                            (p_outcome = 'error')::integer, 0);
    ELSE
        PERFORM job_park(p_job, p_doubt, p_reason, p_error, 0);
    END IF;
    RETURN 'pending';
END $$;

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
        retrying = p_error IS NOT NULL,
        published_at = NULL, cancel_at = NULL, crashes = crashes + p_crashes
    WHERE job_id = p_job;
END $$;
