-- The reason why a job waits: 'parts' for its parts, 'paused tenant' or 'paused type' for the end of a pause, 'key' for other
-- jobs of its concurrency key, 'order' for the earlier job in its order, 'dead letter' for the decision about a failed earlier
-- job; or after 15 s the value of turno.lacking, which names the missing worker, type, version or queue. NULL while nothing
-- delays it.
CREATE OR REPLACE FUNCTION job_lacks(p_job uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT CASE WHEN state = 'parts' THEN 'parts' ELSE coalesce(
        turno.paused(tenant_id, type),
        CASE WHEN state <> 'waiting' THEN
                 CASE WHEN run_at < clock_timestamp() - interval '15 s'
                      THEN turno.lacking(backend, queue, type, version) END
             WHEN key_position IS NULL THEN 'key'
             WHEN EXISTS (SELECT FROM turno.dead_letters d
                          WHERE d.tenant_id = t.tenant_id AND d.concurrency_key = t.concurrency_key
                            AND d.closed_at IS NULL AND d.key_position < t.key_position) THEN 'dead letter'
             ELSE 'order' END) END
    FROM turno.tickets t
    WHERE job_id = p_job
      AND (state IN ('waiting', 'parts') OR state IN ('scheduled', 'ready') AND run_at <= clock_timestamp());
END;
