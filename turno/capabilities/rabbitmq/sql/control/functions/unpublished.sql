-- The messages to publish: up to p_window of each tenant are in the broker, tenants in turn; within a tenant by priority and
-- time. The broker delivers in the order of publication: the smaller the window of a busy tenant, the sooner is the turn of
-- another tenant. Tickets count if a living consumer of messages can and may run them: consumers discard other messages.
CREATE OR REPLACE FUNCTION unpublished(p_window integer, p_limit integer)
RETURNS TABLE (job_id uuid, schema text, attempt integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
    PERFORM promote(200);
    RETURN QUERY
    WITH known AS MATERIALIZED (
        SELECT DISTINCT k.type, k.version FROM workers w CROSS JOIN LATERAL unnest(w.types, w.versions) AS k (type, version)
        WHERE w.backend = 'rabbitmq' AND w.queues IS NULL
          AND NOT EXISTS (SELECT FROM job_types j WHERE j.type = k.type AND (
                  j.paused_at IS NOT NULL
                  OR j.cap <= (SELECT count(*) FROM tickets c WHERE c.state = 'running' AND c.type = k.type)))
    ), lane AS MATERIALIZED (
        SELECT k.type, k.version, waiting_tenants.tenant_id FROM known k CROSS JOIN LATERAL (
            WITH RECURSIVE waiting AS (
                (SELECT t.tenant_id FROM tickets t
                 WHERE t.state = 'ready' AND t.backend = 'rabbitmq' AND t.published_at IS NULL
                   AND t.type = k.type AND t.version = k.version
                 ORDER BY t.tenant_id LIMIT 1)
                UNION ALL
                SELECT n.tenant_id FROM waiting w CROSS JOIN LATERAL (
                    SELECT t.tenant_id FROM tickets t
                    WHERE t.state = 'ready' AND t.backend = 'rabbitmq' AND t.published_at IS NULL
                      AND t.type = k.type AND t.version = k.version AND t.tenant_id > w.tenant_id
                    ORDER BY t.tenant_id LIMIT 1) AS n
            )
            SELECT tenant_id FROM waiting) AS waiting_tenants
    ), capacity AS MATERIALIZED (
        SELECT n.id, n.schema,
               -- Under a cap at most the tickets that may run: an unclaimable message would return much later.
               least(p_window, n.cap - (SELECT count(*) FROM tickets r
                                        WHERE r.state = 'running' AND n.cap IS NOT NULL AND r.tenant_id = n.id))
               - (SELECT count(*) FROM tickets p JOIN known k USING (type, version)
                  WHERE p.state = 'ready' AND p.backend = 'rabbitmq' AND p.published_at IS NOT NULL
                    AND p.tenant_id = n.id) AS free_slots
        FROM tenants n
        WHERE n.id IN (SELECT tenant_id FROM lane) AND n.state = 'active' AND n.paused_at IS NULL
    ), next AS (
        SELECT t.job_id, r.schema, t.attempt, r.id, r.free_slots,
               row_number() OVER (PARTITION BY r.id ORDER BY t.priority, t.run_at, t.job_id) AS turn
        FROM capacity r JOIN lane l ON l.tenant_id = r.id CROSS JOIN LATERAL (
            SELECT t.job_id, t.attempt, t.priority, t.run_at FROM tickets t
            WHERE t.state = 'ready' AND t.backend = 'rabbitmq' AND t.published_at IS NULL
              AND t.type = l.type AND t.version = l.version AND t.tenant_id = r.id
            ORDER BY t.priority, t.run_at, t.job_id LIMIT greatest(0, r.free_slots)) AS t
        WHERE r.free_slots > 0
    )
    SELECT n.job_id, n.schema, n.attempt FROM next n WHERE n.turn <= n.free_slots ORDER BY n.turn, n.id LIMIT p_limit;
END $$;

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

-- Publish messages again that led to no claim for p_waiting_for, and messages of a future time: the server's clock was set
-- back.
CREATE OR REPLACE FUNCTION unpublish(p_waiting_for interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    forgotten bigint;
BEGIN
    UPDATE tickets t SET published_at = NULL
    WHERE t.job_id IN (SELECT p.job_id FROM tickets p
                       WHERE p.state = 'ready' AND p.backend = 'rabbitmq' AND p.published_at IS NOT NULL
                         AND p.published_at NOT BETWEEN clock_timestamp() - p_waiting_for AND clock_timestamp()
                       LIMIT 1000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END $$;
