-- Close the open attempt, or raise: a claim that was never started has nothing to end.
CREATE OR REPLACE FUNCTION attempt_end(p_job uuid, p_outcome text, p_error jsonb) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE background_job_attempts
    SET finished_at = clock_timestamp(), outcome = p_outcome, error = error_kept(p_error)
    WHERE job_id = p_job AND finished_at IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no attempt of job % is open; start it first', p_job USING ERRCODE = 'TU001';
    END IF;
END $$;
