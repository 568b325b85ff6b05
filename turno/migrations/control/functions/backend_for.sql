-- The backend of a tenant's next job: its own, or the canary's if the digest of its slug is within the percentage, or
-- that of all tenants, or p_default, which is the setting QUEUE_BACKEND; without p_default that of a living worker, residents
-- first.
CREATE OR REPLACE FUNCTION backend_for(p_tenant integer, p_default text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT coalesce(
        n.backend,
        CASE WHEN get_byte(digest, 0) * 256 + get_byte(digest, 1) < 655.36 *
                      (SELECT value::integer FROM settings WHERE name = 'queue_canary_percent')
             THEN (SELECT value FROM settings WHERE name = 'queue_canary_backend') END,
        (SELECT value FROM settings WHERE name = 'queue_backend'),
        p_default,
        (SELECT w.backend FROM workers w WHERE w.alive_at > clock_timestamp() - interval '2 minutes'
         ORDER BY w.backend = 'exec', w.alive_at DESC LIMIT 1),
        'exec')
    FROM tenants n CROSS JOIN LATERAL sha256(convert_to(n.slug, 'UTF8')) AS digest
    WHERE n.id = p_tenant;
END;

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

-- Moves ready tickets whose backend has no living worker to a backend that has a worker: if possible to the caller's
-- own. A caller that launches workers itself counts as alive without any.
CREATE OR REPLACE FUNCTION move_unserved(p_backend text, p_waiting_for interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    alive text[] := ARRAY(SELECT backend FROM workers UNION SELECT p_backend WHERE p_backend = 'exec');
    -- By their names, so that the index skips the tickets of backends with a living worker.
    dead text[] := ARRAY(SELECT name FROM backends WHERE name <> ALL (alive));
    target text := CASE WHEN p_backend = ANY (alive) THEN p_backend ELSE alive[1] END;
    jobs uuid[];
BEGIN
    IF alive = '{}' THEN
        RETURN 0;
    END IF;
    jobs := ARRAY(SELECT t.job_id FROM tickets t
                  WHERE t.state = 'ready' AND t.backend = ANY (dead) AND t.run_at <= clock_timestamp() - p_waiting_for
                  LIMIT 1000 FOR UPDATE SKIP LOCKED);
    RETURN tickets_change(jobs, array_fill(target, ARRAY[cardinality(jobs)]));
END $$;
