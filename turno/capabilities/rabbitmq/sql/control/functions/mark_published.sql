-- The broker has confirmed these. Whoever was claimed meanwhile is left as it is. Not asked for their state, or the
-- list of all that are ready would offer itself where one ticket is named.
CREATE OR REPLACE FUNCTION mark_published(p_jobs uuid[], p_attempts integer[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    marked bigint;
BEGIN
    -- Lost with the server, a mark only means that its message is sent again, and a message proves nothing.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE tickets t SET published_at = clock_timestamp()
    FROM unnest(p_jobs, p_attempts) AS sent (job_id, attempt)
    WHERE t.job_id = ANY (p_jobs) AND t.job_id = sent.job_id AND t.attempt = sent.attempt
      AND t.worker_id IS NULL AND t.backend = 'rabbitmq';
    GET DIAGNOSTICS marked = ROW_COUNT;
    RETURN marked;
END $$;
