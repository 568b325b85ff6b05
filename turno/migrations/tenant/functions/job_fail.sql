-- The attempt ended in an error. With a delay the job waits that long and runs again; without one it is failed for
-- good. A job with a requested cancellation is not repeated. p_reset_errors: the attempt was healthy for so long that
-- the errors before it no longer count.
CREATE OR REPLACE FUNCTION job_fail(
    p_job uuid, p_token uuid, p_reason text, p_error jsonb, p_retry_in interval, p_reset_errors boolean) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF attempt_close(p_job, p_token, 'error', p_error) THEN
        RETURN 'cancelled';
    END IF;
    IF p_reset_errors THEN
        UPDATE background_jobs SET errors = 0 WHERE id = p_job;
    END IF;
    IF p_retry_in IS NULL THEN
        UPDATE background_jobs SET errors = errors + 1 WHERE id = p_job;
        PERFORM job_end(p_job, 'failed', p_reason, NULL, p_error);
        RETURN 'failed';
    END IF;
    PERFORM outcome_put(p_job, 'retried');
    PERFORM job_requeue(p_job, clock_timestamp() + p_retry_in, p_reason, p_error, 1, 0);
    RETURN 'pending';
END $$;

-- The attempt ended without fault: rescheduled by its handler, or handed back. Nothing is counted,
-- and a poller that ended well starts with no errors next time.
CREATE OR REPLACE FUNCTION job_release(
    p_job uuid, p_token uuid, p_outcome text, p_reason text, p_run_at timestamptz) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF attempt_close(p_job, p_token, p_outcome, NULL) THEN
        RETURN 'cancelled';
    END IF;
    IF p_outcome = 'rescheduled' THEN
        UPDATE background_jobs SET errors = 0, crashes = 0 WHERE id = p_job AND errors + crashes > 0;
        UPDATE turno.tickets SET crashes = 0 WHERE job_id = p_job AND crashes > 0;
    END IF;
    PERFORM outcome_put(p_job, p_outcome);
    PERFORM job_requeue(p_job, p_run_at, p_reason, NULL, 0, 0);
    RETURN 'pending';
END $$;

-- The handler found its job pointless: it ends as cancelled.
CREATE OR REPLACE FUNCTION job_end_cancelled(p_job uuid, p_token uuid, p_reason text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    IF NOT attempt_close(p_job, p_token, 'cancelled', NULL) THEN
        PERFORM job_end(p_job, 'cancelled', p_reason, NULL, NULL);
    END IF;
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
        published_at = NULL, cancel_at = NULL, crashes = crashes + p_crashes
    WHERE job_id = p_job;
END $$;
