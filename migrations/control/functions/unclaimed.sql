-- Ready tickets that no worker took for a while: the hint was lost, or there was no room.
CREATE OR REPLACE FUNCTION unclaimed(p_backend text, p_waiting_for interval, p_limit integer)
RETURNS TABLE (job_id uuid, slug text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT t.job_id, n.slug
    FROM tickets t
    JOIN tenants n ON n.id = t.tenant_id AND n.state = 'active' AND n.paused_at IS NULL
    WHERE t.state = 'ready' AND t.backend = p_backend AND t.run_at <= clock_timestamp() - p_waiting_for
    ORDER BY t.run_at LIMIT p_limit;
END;
