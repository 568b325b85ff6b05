-- Move waiting tickets to the backend that was chosen for their tenant, whether or not a worker serves the old backend.
CREATE OR REPLACE FUNCTION reroute(p_default text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    jobs uuid[];
    backends text[];
BEGIN
    WITH chosen AS MATERIALIZED (
        SELECT id, backend_for(id, p_default) AS backend FROM tenants
    ), waiting AS (
        SELECT w.job_id, c.backend FROM tickets w JOIN chosen c ON c.id = w.tenant_id
        WHERE w.state <> 'running' AND w.backend <> c.backend
        LIMIT 1000 FOR UPDATE OF w SKIP LOCKED
    )
    SELECT array_agg(job_id), coalesce(array_agg(backend), '{}') INTO jobs, backends FROM waiting;
    RETURN tickets_change(jobs, backends);
END $$;
