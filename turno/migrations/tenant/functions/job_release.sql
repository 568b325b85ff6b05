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
