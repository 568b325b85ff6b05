-- Publish messages again that led to no claim for p_waiting_for, and messages of a future time: the server's clock was set
-- back.
CREATE OR REPLACE FUNCTION unpublish(p_waiting_for interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    forgotten bigint;
BEGIN
    UPDATE tickets t SET published_at = NULL
    WHERE t.job_id IN (SELECT p.job_id FROM tickets p
                       WHERE p.state = 'ready' AND p.backend = 'rabbitmq' AND p.published_at IS NOT NULL
                         AND p.published_at NOT BETWEEN clock_timestamp() - p_waiting_for AND clock_timestamp()
                       LIMIT 1000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END $$;
