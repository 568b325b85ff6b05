-- Ready tickets that a worker with these queues and types could claim, and that no worker claimed for a while: the hint was
-- lost, or no slot was free. Of each lane and tenant at most p_limit tickets are read; paused and full tenants and types,
-- other types and the tenants in p_without are skipped.
CREATE OR REPLACE FUNCTION unclaimed(
    p_backend text, p_queues text[], p_types text[], p_versions smallint[], p_waiting_for interval, p_limit integer,
    p_without text[])
RETURNS TABLE (job_id uuid, slug text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    RETURN QUERY
    SELECT waiting.job_id, n.slug
    FROM unnest(p_queues) AS q (queue) CROSS JOIN unnest(p_types, p_versions) AS known (type, version)
    CROSS JOIN LATERAL (
        WITH RECURSIVE tenant AS (
            (SELECT t.tenant_id FROM tickets t
             WHERE t.state = 'ready' AND t.backend = p_backend AND t.queue = q.queue AND t.type = known.type
               AND t.version = known.version
             ORDER BY t.tenant_id LIMIT 1)
            UNION ALL
            SELECT next.tenant_id FROM tenant w CROSS JOIN LATERAL (
                SELECT t.tenant_id FROM tickets t
                WHERE t.state = 'ready' AND t.backend = p_backend AND t.queue = q.queue AND t.type = known.type
                  AND t.version = known.version AND t.tenant_id > w.tenant_id
                ORDER BY t.tenant_id LIMIT 1) AS next
        )
        SELECT tenant_id FROM tenant) AS waiting_tenants
    JOIN tenants n ON n.id = waiting_tenants.tenant_id AND n.state = 'active' AND n.paused_at IS NULL AND n.slug <> ALL (p_without)
         AND (n.cap IS NULL
              OR n.cap > (SELECT count(*) FROM tickets r WHERE r.state = 'running' AND r.tenant_id = n.id))
    CROSS JOIN generate_series(0, 2) AS band
    CROSS JOIN LATERAL (
        SELECT t.job_id FROM tickets t
        WHERE t.state = 'ready' AND t.backend = p_backend AND t.queue = q.queue AND t.type = known.type
          AND t.version = known.version AND t.tenant_id = n.id AND t.priority = band
          AND t.run_at <= clock_timestamp() - p_waiting_for
        ORDER BY t.run_at LIMIT p_limit) AS waiting
    WHERE NOT EXISTS (
        SELECT FROM job_types j WHERE j.type = known.type AND (
            j.paused_at IS NOT NULL
            OR j.cap <= (SELECT count(*) FROM tickets r WHERE r.state = 'running' AND r.type = known.type)))
    LIMIT p_limit;
END $$;

-- The tickets that wait for longer than p_waiting_for and that no living worker can claim, by backend, queue, type and
-- version: how many (counted to 1000), of how many tenants, since when. Jobs of paused tenants wait for their operator and
-- do not count. A step to the next lane, or within a lane to the next tenant, costs one descent of the index, independent
-- of the number of tickets; at most 1000 steps of each are made.
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
        SELECT count(DISTINCT h.tenant_id) AS tenants, min(h.run_at) AS oldest, array_agg(DISTINCT h.tenant_id) AS ids
        FROM (SELECT * FROM head LIMIT 1000) AS h JOIN tenants n ON n.id = h.tenant_id AND n.paused_at IS NULL
    ) AS heads
    CROSS JOIN LATERAL (
        SELECT count(*) AS waiting FROM (
            SELECT FROM unnest(heads.ids) AS i (id) CROSS JOIN LATERAL (
                SELECT FROM tickets t WHERE t.state = 'ready' AND t.backend = l.backend AND t.queue = l.queue
                   AND t.type = l.type AND t.version = l.version AND t.tenant_id = i.id LIMIT 1000) AS tickets_of_tenant
            LIMIT 1000) AS tickets_of_lane
    ) AS counted
    WHERE missing.lacks IS NOT NULL AND heads.oldest <= clock_timestamp() - p_waiting_for;
END;
