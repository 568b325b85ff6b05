-- Returns which of this worker's jobs somebody wants stopped; NULL means that it was declared
-- dead, that others may run its jobs, and that it must stop itself.
CREATE OR REPLACE FUNCTION worker_alive(p_worker uuid) RETURNS uuid[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    UPDATE workers SET alive_at = clock_timestamp() WHERE id = p_worker;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    RETURN ARRAY(SELECT job_id FROM tickets
                 WHERE state = 'running' AND worker_id = p_worker AND cancel_at IS NOT NULL);
END $$;
