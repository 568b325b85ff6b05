-- What is missing for a job to be taken that has waited for longer than it takes to be found, as turno.lacking says it.
CREATE OR REPLACE FUNCTION job_lacks(p_job uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT turno.lacking(backend, queue, type, version) FROM turno.tickets
    WHERE job_id = p_job AND state <> 'running' AND run_at < clock_timestamp() - interval '15 s';
END;
