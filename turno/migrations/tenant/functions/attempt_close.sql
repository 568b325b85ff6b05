-- Close the attempt of this claim, or raise: a claim that was lost, or never started, has nothing to end. A job with a
-- requested cancellation ends with it; returns whether it did.
CREATE OR REPLACE FUNCTION attempt_close(p_job uuid, p_token uuid, p_outcome text, p_error jsonb) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM claim_hold(p_job, p_token);
    UPDATE background_job_attempt_rows
    SET finished_at = clock_timestamp(), outcome = p_outcome, error = error_kept(p_error)
    WHERE job_id = p_job AND finished_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no attempt of job % is open; start it first', p_job USING ERRCODE = 'TU001';
    END IF;
    RETURN job_cancel_requested(p_job) AND job_end(p_job, 'cancelled', 'cancelled on request', NULL, p_error);
END $$;
