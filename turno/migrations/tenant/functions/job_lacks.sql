-- What is missing for a job to be taken that has waited for longer than it takes to be found, as turno.lacking says it; or
-- 'key' while it waits for others of its concurrency key, 'order' while the job before it in an order has not ended,
-- 'dead letter' once that one has failed for good, and 'parts' while it waits for those that it was split into.
CREATE OR REPLACE FUNCTION job_lacks(p_job uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT CASE WHEN state <> 'waiting' AND run_at = 'infinity' THEN 'parts'
                WHEN state <> 'waiting' THEN turno.lacking(backend, queue, type, version)
                WHEN key_position IS NULL THEN 'key'
                WHEN EXISTS (SELECT FROM turno.dead_letters d
                             WHERE d.tenant_id = t.tenant_id AND d.concurrency_key = t.concurrency_key
                               AND d.closed_at IS NULL AND d.key_position < t.key_position) THEN 'dead letter'
                ELSE 'order' END
    FROM turno.tickets t
    WHERE job_id = p_job
      AND (state = 'waiting' OR state <> 'running' AND run_at < clock_timestamp() - interval '15 s'
           OR run_at = 'infinity' AND EXISTS (SELECT FROM turno.tickets p WHERE p.awaited_by = p_job));
END;
