CREATE OR REPLACE FUNCTION worker_start(
    p_backend text, p_host text, p_pid integer, p_queues text[], p_types text[], p_versions smallint[]) RETURNS uuid
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    worker uuid;
BEGIN
    INSERT INTO workers (backend, host, pid, queues, types, versions)
    VALUES (p_backend, p_host, p_pid, p_queues, p_types, p_versions) RETURNING id INTO worker;
    IF p_backend = 'exec' AND p_types <> '{}' THEN
        INSERT INTO exec_hosts (host, types, versions, seen_at) VALUES (p_host, p_types, p_versions, clock_timestamp())
        ON CONFLICT (host) DO UPDATE
        SET types = excluded.types, versions = excluded.versions, seen_at = excluded.seen_at
        -- Many workers start at once: only a change, or an old row, is written.
        WHERE exec_hosts.seen_at < excluded.seen_at - interval '1 hour'
           OR (exec_hosts.types, exec_hosts.versions) <> (excluded.types, excluded.versions);
    END IF;
    RETURN worker;
END $$;

-- Record a heartbeat; returns the jobs of the worker to be stopped and the orders of operators: to claim nothing more, or to
-- stop, and the seconds that attempts of some types may take. No row: the worker was declared dead, others may run its jobs,
-- and it must stop itself.
CREATE OR REPLACE FUNCTION worker_alive(p_worker uuid) RETURNS TABLE (to_stop uuid[], request text, timeouts jsonb)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY UPDATE workers w SET alive_at = clock_timestamp() WHERE w.id = p_worker
    RETURNING ARRAY(SELECT t.job_id FROM tickets t
                    WHERE t.state = 'running' AND t.worker_id = p_worker AND t.cancel_at IS NOT NULL),
              w.request,
              (SELECT coalesce(jsonb_object_agg(j.type, j.timeout), '{}') FROM job_types j WHERE j.timeout IS NOT NULL);
END $$;

CREATE OR REPLACE FUNCTION worker_stop(p_worker uuid) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    DELETE FROM workers WHERE id = p_worker;
END;

-- The claims of a worker according to the tickets. A claim that the worker does not know had a lost reply.
CREATE OR REPLACE FUNCTION held(p_worker uuid) RETURNS SETOF claimed
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT t.job_id, t.token, t.attempt, t.type, t.version, n.id, n.slug, n.schema, n.handler_role, n.login_epoch,
           n.adopted_schema, n.parent_schema
    FROM tickets t JOIN tenants n ON n.id = t.tenant_id
    WHERE t.state = 'running' AND t.worker_id = p_worker;
END;

-- A worker that was silent for too long is taken off the list. Its tickets then belong to
-- no worker, and `orphans` finds them, now or after a crash of the caller.
-- Silence counts only while a process swept: during an outage of the database all workers were silent.
CREATE OR REPLACE FUNCTION prune_workers(p_silent_for interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    listened_since timestamptz := (SELECT since FROM leases WHERE name = 'sweep');
    pruned bigint;
BEGIN
    -- A heartbeat in the future is from before the server's clock was set back.
    UPDATE workers SET alive_at = clock_timestamp() WHERE alive_at > clock_timestamp();
    DELETE FROM workers WHERE greatest(alive_at, listened_since) < clock_timestamp() - p_silent_for;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    DELETE FROM exec_hosts WHERE seen_at < clock_timestamp() - interval '7 days';
    RETURN pruned;
END $$;

-- How long the silence of the listed workers does not count yet, because no process swept before; NULL if none is silent.
CREATE OR REPLACE FUNCTION silence_left(p_silent_for interval) RETURNS interval
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT p_silent_for - coalesce((SELECT clock_timestamp() - l.since FROM leases l WHERE l.name = 'sweep'), '0')
    WHERE EXISTS (SELECT FROM workers w WHERE w.alive_at < clock_timestamp() - p_silent_for);
END;

-- Running tickets without a worker: their tenants' job_rescue ends each. A dry run passes the silence that would count as
-- death; other callers have pruned the list of workers before. Of each tenant some, in any order: a job that cannot be
-- rescued must not come first again.
CREATE OR REPLACE FUNCTION orphans(p_silent_for interval DEFAULT NULL) RETURNS SETOF claimed
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT t.job_id, t.token, t.attempt, t.type, t.version, n.id, n.slug, n.schema, n.handler_role, n.login_epoch,
           n.adopted_schema, n.parent_schema
    FROM tickets t JOIN tenants n ON n.id = t.tenant_id
    WHERE t.state = 'running'
      AND NOT EXISTS (SELECT FROM workers w WHERE w.id = t.worker_id
                      AND (p_silent_for IS NULL OR w.alive_at >= clock_timestamp() - p_silent_for))
    ORDER BY row_number() OVER (PARTITION BY t.tenant_id ORDER BY random())
    LIMIT 1000;
END;
