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
