-- Return a claim that no process received: its job was not started, so the ticket alone is put back as it was, and no lock
-- on its tenant's tables can delay that. With a wait no worker claims the ticket before the wait is over.
CREATE OR REPLACE FUNCTION unclaim(p_job uuid, p_token uuid, p_wait interval) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    -- Lost with the server, it is found by the worker's heartbeat.
    SELECT set_config('synchronous_commit', 'off', true);
    UPDATE tickets
    SET state = CASE WHEN p_wait > interval '0' THEN 'scheduled' ELSE 'ready' END,
        run_at = CASE WHEN p_wait > interval '0' THEN clock_timestamp() + p_wait ELSE run_at END,
        worker_id = NULL, token = NULL, attempt = attempt - 1, published_at = NULL
    WHERE job_id = p_job AND token = p_token AND state = 'running';
END;
