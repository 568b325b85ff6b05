-- Whether a spawned worker that has been idle for p_idle_for should stay: no process swept for a period, a job becomes due
-- before the worker has been idle for p_at_most, or the heartbeat of a worker with a job is missing since then. One worker
-- of the installation stays, the last to become idle, which has the longest time left.
CREATE OR REPLACE FUNCTION worth_staying(p_worker uuid, p_idle_for interval, p_at_most interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    now timestamptz := clock_timestamp();
BEGIN
    IF p_idle_for >= p_at_most OR NOT (
        NOT EXISTS (SELECT FROM leases l WHERE l.name = 'sweep' AND l.until > now)
        OR EXISTS (SELECT FROM tickets t
                   WHERE t.state = 'scheduled' AND t.run_at <= now + p_at_most - p_idle_for AND t.backend = 'exec')
        OR EXISTS (SELECT FROM key_looks k WHERE k.at <= now + p_at_most - p_idle_for)
        OR EXISTS (SELECT FROM part_looks)
        OR EXISTS (SELECT FROM tickets t LEFT JOIN workers w ON w.id = t.worker_id
                   WHERE t.state = 'running' AND t.worker_id <> p_worker AND t.backend = 'exec'
                     AND (w.id IS NULL OR w.alive_at <= now - p_idle_for))) THEN
        RETURN false;
    END IF;
    -- Lost with the server, it is only taken again.
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO leases (name, holder, until) VALUES ('exec watch', p_worker::text, now + p_at_most - p_idle_for)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE leases.holder = excluded.holder OR leases.until < excluded.until OR leases.until > now + p_at_most;
    RETURN FOUND;
END $$;
