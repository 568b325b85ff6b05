-- What is missing for a job to be taken that has waited for longer than it takes to be found, as turno.lacking says it; or
-- 'key' while it waits for others of its concurrency key.
CREATE OR REPLACE FUNCTION job_lacks(p_job uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT CASE WHEN state = 'waiting' THEN 'key' ELSE turno.lacking(backend, queue, type, version) END FROM turno.tickets
    WHERE job_id = p_job AND (state = 'waiting' OR state <> 'running' AND run_at < clock_timestamp() - interval '15 s');
END;
