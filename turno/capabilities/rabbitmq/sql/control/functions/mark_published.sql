-- Record the messages that the broker has confirmed, except for tickets claimed meanwhile. The condition does not name the
-- state, for which the planner would read the index of all ready tickets.
CREATE OR REPLACE FUNCTION mark_published(p_jobs uuid[], p_attempts integer[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    marked bigint;
BEGIN
    -- A mark that is lost with the server repeats a message, and a message proves nothing.
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE tickets t SET published_at = clock_timestamp()
    FROM unnest(p_jobs, p_attempts) AS sent (job_id, attempt)
    WHERE t.job_id = ANY (p_jobs) AND t.job_id = sent.job_id AND t.attempt = sent.attempt
      AND t.worker_id IS NULL AND t.backend = 'rabbitmq';
    GET DIAGNOSTICS marked = ROW_COUNT;
    RETURN marked;
END $$;
