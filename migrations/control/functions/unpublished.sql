-- What to publish now: of each band and tenant as much as keeps p_window messages in the broker, tenants in turn.
-- The broker is first in, first out; so the less of a busy tenant is in there, the sooner another has its turn.
CREATE OR REPLACE FUNCTION unpublished(p_window integer, p_limit integer)
RETURNS TABLE (job_id uuid, schema text, attempt integer, priority smallint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM promote(200);
    RETURN QUERY
    WITH RECURSIVE waiting AS (
        (SELECT t.priority, t.tenant_id FROM tickets t
         WHERE t.state = 'ready' AND t.backend = 'rabbitmq' AND t.published_at IS NULL
         ORDER BY t.priority, t.tenant_id LIMIT 1)
        UNION ALL
        SELECT n.priority, n.tenant_id
        FROM waiting w CROSS JOIN LATERAL (
            SELECT t.priority, t.tenant_id FROM tickets t
            WHERE t.state = 'ready' AND t.backend = 'rabbitmq' AND t.published_at IS NULL
              AND (t.priority, t.tenant_id) > (w.priority, w.tenant_id)
            ORDER BY t.priority, t.tenant_id LIMIT 1) AS n
    ), room AS (
        SELECT w.priority, n.id, n.schema,
               -- Under a cap, no more than could run: what cannot be claimed is looked at again much later.
               least(p_window, n.cap - (SELECT count(*) FROM tickets r
                                        WHERE r.state = 'running' AND n.cap IS NOT NULL AND r.tenant_id = n.id))
               - (SELECT count(*) FROM tickets p
                  WHERE p.state = 'ready' AND p.backend = 'rabbitmq' AND p.published_at IS NOT NULL
                    AND p.priority = w.priority AND p.tenant_id = n.id) AS places
        FROM waiting w JOIN tenants n ON n.id = w.tenant_id AND n.state = 'active' AND n.paused_at IS NULL
    )
    SELECT next.job_id, r.schema, next.attempt, r.priority
    FROM room r CROSS JOIN LATERAL (
        SELECT t.job_id, t.attempt, row_number() OVER (ORDER BY t.run_at, t.job_id) AS turn FROM tickets t
        WHERE t.state = 'ready' AND t.backend = 'rabbitmq' AND t.published_at IS NULL
          AND t.priority = r.priority AND t.tenant_id = r.id
          AND NOT EXISTS (SELECT FROM job_types j WHERE j.type = t.type AND (
                  j.paused_at IS NOT NULL
                  OR j.cap <= (SELECT count(*) FROM tickets c WHERE c.state = 'running' AND c.type = t.type)))
        ORDER BY t.run_at, t.job_id LIMIT greatest(0, r.places)) AS next
    ORDER BY r.priority, next.turn, r.id
    LIMIT p_limit;
END $$;
