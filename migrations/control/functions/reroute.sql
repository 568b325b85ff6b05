-- What waits follows its tenant to the backend that was chosen since, whether somebody serves the old one or not.
CREATE OR REPLACE FUNCTION reroute(p_default text, p_canary text, p_percent integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    moved bigint;
BEGIN
    WITH chosen AS MATERIALIZED (
        SELECT id, backend_for(id, p_default, p_canary, p_percent) AS backend FROM tenants
    )
    UPDATE tickets t SET backend = chosen.backend, published_at = NULL
    FROM chosen
    WHERE chosen.id = t.tenant_id
      AND t.job_id IN (SELECT w.job_id FROM tickets w JOIN chosen c ON c.id = w.tenant_id
                       WHERE w.state <> 'running' AND w.backend <> c.backend
                       LIMIT 1000 FOR UPDATE OF w SKIP LOCKED);
    GET DIAGNOSTICS moved = ROW_COUNT;
    RETURN moved;
END $$;
