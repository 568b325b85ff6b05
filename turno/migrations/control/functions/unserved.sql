-- The tickets that wait for longer than p_waiting_for and that no living worker can claim, by backend, queue, type and
-- version: how many (counted to 1000), of how many tenants, since when. A step to the next lane, or within a lane to
-- the next tenant, costs one descent of the index, independent of the number of tickets; at most 1000 steps of each are
-- made.
CREATE OR REPLACE FUNCTION unserved(p_waiting_for interval)
RETURNS TABLE (backend text, queue text, type text, version smallint, lacks text, waiting bigint, tenants bigint,
               oldest timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET enable_bitmapscan = off
BEGIN ATOMIC
    WITH RECURSIVE lane AS (
        (SELECT t.backend, t.queue, t.type, t.version FROM tickets t WHERE t.state = 'ready'
         ORDER BY t.backend, t.queue, t.type, t.version LIMIT 1)
        UNION ALL
        SELECT n.* FROM lane l CROSS JOIN LATERAL (
            SELECT t.backend, t.queue, t.type, t.version FROM tickets t
            WHERE t.state = 'ready' AND (t.backend, t.queue, t.type, t.version) > (l.backend, l.queue, l.type, l.version)
            ORDER BY t.backend, t.queue, t.type, t.version LIMIT 1) AS n
    )
    SELECT l.backend, l.queue, l.type, l.version, missing.lacks, counted.waiting, heads.tenants, heads.oldest
    FROM (SELECT * FROM lane LIMIT 1000) AS l
    CROSS JOIN LATERAL (SELECT lacking(l.backend, l.queue, l.type, l.version)) AS missing (lacks)
    CROSS JOIN LATERAL (
        WITH RECURSIVE head AS (
            (SELECT t.tenant_id, t.priority, t.run_at FROM tickets t
             WHERE t.state = 'ready' AND t.backend = l.backend AND t.queue = l.queue AND t.type = l.type
               AND t.version = l.version
             ORDER BY t.tenant_id, t.priority, t.run_at LIMIT 1)
            UNION ALL
            SELECT n.* FROM head h CROSS JOIN LATERAL (
                SELECT t.tenant_id, t.priority, t.run_at FROM tickets t
                WHERE t.state = 'ready' AND t.backend = l.backend AND t.queue = l.queue AND t.type = l.type
                  AND t.version = l.version AND (t.tenant_id, t.priority) > (h.tenant_id, h.priority)
                ORDER BY t.tenant_id, t.priority, t.run_at LIMIT 1) AS n
        )
        SELECT count(DISTINCT tenant_id) AS tenants, min(run_at) AS oldest FROM (SELECT * FROM head LIMIT 1000) AS h
    ) AS heads
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting FROM (
            SELECT FROM tickets t WHERE t.state = 'ready' AND t.backend = l.backend AND t.queue = l.queue
               AND t.type = l.type AND t.version = l.version LIMIT 1000) AS one
    ) AS counted
    WHERE missing.lacks IS NOT NULL AND heads.oldest <= clock_timestamp() - p_waiting_for;
END;
