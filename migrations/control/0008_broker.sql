-- What a broker needs: which tickets to publish next, and which backend a tenant's jobs go to.

ALTER TABLE settings ADD CONSTRAINT known_backend CHECK (
    name NOT IN ('queue_backend', 'queue_canary_backend') OR value IN ('exec', 'pool', 'rabbitmq'));
ALTER TABLE settings ADD CONSTRAINT percentage CHECK (
    name <> 'queue_canary_percent' OR value ~ '^[0-9]{1,3}$' AND value::integer <= 100);

-- Band first, then tenant: how the relay walks, and how it counts what of them is in the broker.
CREATE INDEX tickets_unpublished ON tickets (priority, tenant_id, run_at, job_id)
    WHERE state = 'ready' AND backend = 'rabbitmq' AND published_at IS NULL;
CREATE INDEX tickets_published ON tickets (priority, tenant_id, published_at)
    WHERE state = 'ready' AND backend = 'rabbitmq' AND published_at IS NOT NULL;

-- Like lease_take, but the holder may go on, and says when it leaves.
CREATE FUNCTION lease_keep(p_name text, p_holder text, p_for interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO leases (name, holder, until) VALUES (p_name, p_holder, clock_timestamp() + p_for)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE leases.holder = p_holder OR leases.until <= clock_timestamp();
    RETURN FOUND;
END $$;

CREATE FUNCTION lease_drop(p_name text, p_holder text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    DELETE FROM leases WHERE name = p_name AND holder = p_holder;
END;

-- What to publish now: of each band and tenant as much as keeps p_window messages in the broker, tenants in turn.
-- The broker is first in, first out; so the less of a busy tenant is in there, the sooner another has its turn.
CREATE FUNCTION unpublished(p_window integer, p_limit integer)
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

-- The broker has confirmed these. Whoever was claimed meanwhile is left as it is.
CREATE FUNCTION mark_published(p_jobs uuid[], p_attempts integer[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    marked bigint;
BEGIN
    UPDATE tickets t SET published_at = clock_timestamp()
    FROM unnest(p_jobs, p_attempts) AS sent (job_id, attempt)
    WHERE t.job_id = sent.job_id AND t.attempt = sent.attempt AND t.state = 'ready' AND t.backend = 'rabbitmq';
    GET DIAGNOSTICS marked = ROW_COUNT;
    RETURN marked;
END $$;

-- Messages of a band that nobody took for so long are given up for lost: they are published again.
CREATE FUNCTION unpublish(p_priority integer, p_waiting_for interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    forgotten bigint;
BEGIN
    UPDATE tickets t SET published_at = NULL
    WHERE t.job_id IN (SELECT p.job_id FROM tickets p
                       WHERE p.state = 'ready' AND p.backend = 'rabbitmq' AND p.priority = p_priority
                         AND p.published_at <= clock_timestamp() - p_waiting_for
                       LIMIT 1000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS forgotten = ROW_COUNT;
    RETURN forgotten;
END $$;

-- Take the ticket that a message names. A message proves nothing: where its schema is not the ticket's tenant's, it
-- is not believed at all.
CREATE FUNCTION claim_message(p_worker uuid, p_job uuid, p_schema text, p_types text[], p_versions smallint[])
RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM FROM tickets t JOIN tenants n ON n.id = t.tenant_id WHERE t.job_id = p_job AND n.schema = p_schema;
    IF FOUND THEN
        RETURN QUERY SELECT * FROM claim_job(p_worker, p_job, p_types, p_versions);
    END IF;
END $$;

-- Which backend a tenant's next job goes to: its own, or the canary's if its name falls among the percentage, or the
-- one of all. The parameters are the environment's defaults of what may be set at run time.
CREATE FUNCTION backend_for(p_tenant integer, p_default text, p_canary text, p_percent integer) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT coalesce(
        n.backend,
        CASE WHEN get_byte(digest, 0) * 256 + get_byte(digest, 1) < 655.36 * coalesce(
                      (SELECT value::integer FROM settings WHERE name = 'queue_canary_percent'), p_percent)
             THEN coalesce((SELECT value FROM settings WHERE name = 'queue_canary_backend'), p_canary) END,
        (SELECT value FROM settings WHERE name = 'queue_backend'),
        p_default)
    FROM tenants n CROSS JOIN LATERAL sha256(convert_to(n.slug, 'UTF8')) AS digest
    WHERE n.id = p_tenant;
END;

-- What waits follows its tenant to the backend that was chosen since, whether somebody serves the old one or not.
CREATE FUNCTION reroute(p_default text, p_canary text, p_percent integer) RETURNS bigint
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

-- What nobody claimed for a while, because nobody serves its backend, is stamped over to one that is alive, the
-- caller's own if it is; a caller that launches workers itself is alive without any.
CREATE OR REPLACE FUNCTION restamp(p_backend text, p_waiting_for interval, p_dry_run boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    alive text[] := ARRAY(SELECT backend FROM workers UNION SELECT p_backend WHERE p_backend = 'exec');
    target text := CASE WHEN p_backend = ANY (alive) THEN p_backend ELSE alive[1] END;
    stamped bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO stamped FROM tickets
        WHERE state = 'ready' AND backend <> ALL (alive) AND cardinality(alive) > 0
          AND run_at <= clock_timestamp() - p_waiting_for;
        RETURN stamped;
    END IF;
    UPDATE tickets SET backend = target, published_at = NULL
    WHERE job_id IN (SELECT t.job_id FROM tickets t
                     WHERE t.state = 'ready' AND t.backend <> ALL (alive) AND cardinality(alive) > 0
                       AND t.run_at <= clock_timestamp() - p_waiting_for
                     LIMIT 1000 FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS stamped = ROW_COUNT;
    RETURN stamped;
END $$;

-- Who is where: by backend its living workers and tickets, and what of them is stranded, which nobody alive will take.
CREATE VIEW backend_counts AS
SELECT b.backend,
       (SELECT count(*) FROM workers w WHERE w.backend = b.backend) AS workers,
       count(t.job_id) FILTER (WHERE t.state = 'scheduled') AS scheduled,
       count(t.job_id) FILTER (WHERE t.state = 'ready') AS ready,
       count(t.job_id) FILTER (WHERE t.state = 'ready' AND t.published_at IS NOT NULL) AS published,
       count(t.job_id) FILTER (WHERE t.state = 'running') AS running,
       min(t.run_at) FILTER (WHERE t.state = 'ready') AS oldest
FROM unnest(ARRAY['exec', 'pool', 'rabbitmq']) AS b (backend)
LEFT JOIN tickets t ON t.backend = b.backend
GROUP BY b.backend;
