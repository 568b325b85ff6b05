-- By the supervisor, for a job that is long: people see that it runs, for so long already. The holder of the ticket is
-- about to commit a piece of work or the end, and is not waited for. Returns whether the job is shown now.
CREATE OR REPLACE FUNCTION jobs_running(p_job uuid, p_token uuid, p_worker text, p_backend integer, p_for interval)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET lock_timeout = '50ms' AS $$
BEGIN
    -- Lost with the server, so is the session that works for it.
    PERFORM set_config('synchronous_commit', 'off', true);
    PERFORM FROM turno.tickets WHERE job_id = p_job AND token = p_token FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM attempt_open(p_job, p_token, p_worker, p_backend, clock_timestamp() - p_for);
    RETURN true;
END $$;
