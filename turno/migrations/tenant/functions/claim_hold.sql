-- Hold the claim until the transaction ends, or raise: a worker that lost it writes nothing. Of an attempt that is shown as
-- running the token serves the session that works on it, and any other only after that session has ended.
CREATE OR REPLACE FUNCTION claim_hold(p_job uuid, p_token uuid) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    shown background_job_attempt_rows;
BEGIN
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the claim on job % was lost; this attempt must stop', p_job USING ERRCODE = 'TU001';
    END IF;
    SELECT * INTO shown FROM background_job_attempt_rows
    WHERE job_id = p_job AND token = p_token AND finished_at IS NULL AND backend_pid <> pg_backend_pid();
    IF FOUND THEN
        PERFORM session_gone(shown.backend_pid, shown.backend_start);
        UPDATE background_job_attempt_rows
        SET backend_pid = pg_backend_pid(),
            backend_start = (SELECT s.backend_start FROM pg_stat_get_activity(pg_backend_pid()) AS s)
        WHERE job_id = p_job AND attempt = shown.attempt;
    END IF;
    PERFORM commit_durably();
END $$;
