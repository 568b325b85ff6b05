-- A waiting job ends at once. A claimed job gets a request to stop: it may be running already, and ending it would
-- refuse the whole batch in its transaction.
CREATE OR REPLACE FUNCTION job_cancel(p_job uuid, p_user text, p_reason text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    job background_jobs;
    claimed boolean;
BEGIN
    SELECT state = 'running' INTO claimed FROM turno.tickets WHERE job_id = p_job FOR UPDATE;
    SELECT * INTO job FROM background_jobs WHERE id = p_job AND (p_user IS NULL OR user_id = p_user) FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF job.status NOT IN ('pending', 'running') THEN
        RETURN 'ended';
    ELSIF job.status = 'running' OR claimed THEN
        UPDATE background_jobs SET cancel_requested_at = coalesce(cancel_requested_at, clock_timestamp()) WHERE id = p_job;
        UPDATE turno.tickets SET cancel_at = coalesce(cancel_at, clock_timestamp()) WHERE job_id = p_job;
        RETURN 'requested';
    END IF;
    PERFORM job_end(p_job, 'cancelled', p_reason, NULL, NULL);
    RETURN 'cancelled';
END $$;
