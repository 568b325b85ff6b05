-- Delete rows of the control schema that nothing needs any more, up to p_limit of the tables that grow with users and keys;
-- returns how many:
--   outcomes older than p_retention that all readers of that time have read, and statistics of minutes older than p_minutes;
--   rate limits that are not used, which equal absent rows;
--   types that no announcement has named for a day, without an open job and a living worker, and payloads;
--   locks of unused concurrency keys.
CREATE OR REPLACE FUNCTION prune(p_minutes interval, p_retention interval, p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now timestamptz := clock_timestamp();
    pruned bigint;
    keys bigint;
BEGIN
    DELETE FROM outcome_batches
    WHERE at < now - p_retention
      AND position <= (SELECT min(position) FROM outcome_readers WHERE read_at > now - p_retention);
    WITH minutes AS (
        DELETE FROM statistics WHERE minute > '-infinity' AND minute < now - p_minutes RETURNING 1
    ), limits AS (
        DELETE FROM rate_limits WHERE (tenant_id, name, subject) IN (
            SELECT tenant_id, name, subject FROM rate_limits WHERE empty_at < extract(epoch FROM now)
            LIMIT p_limit FOR UPDATE SKIP LOCKED) RETURNING 1
    ), types AS (
        DELETE FROM handlers h
        WHERE h.seen_at < now - interval '1 day'
          AND NOT EXISTS (SELECT FROM tickets t WHERE t.type = h.type)
          AND NOT EXISTS (SELECT FROM workers w WHERE h.type = ANY (w.types)) RETURNING 1
    ), payloads AS (
        DELETE FROM handler_payloads WHERE seen_at < now - interval '1 day' RETURNING 1
    )
    SELECT count(*) INTO pruned
    FROM (SELECT FROM minutes UNION ALL SELECT FROM limits UNION ALL SELECT FROM types
          UNION ALL SELECT FROM payloads) AS gone;
    -- The table lock keeps promote from using a row that is being removed; row locks of keys pass it. While another
    -- transaction writes the table no key is removed, so that promote never waits in a queue behind this lock.
    BEGIN
        LOCK TABLE key_locks IN SHARE ROW EXCLUSIVE MODE NOWAIT;
    EXCEPTION WHEN lock_not_available THEN
        RETURN pruned;
    END;
    DELETE FROM key_locks k WHERE ctid = ANY (ARRAY(
        SELECT o.ctid FROM key_locks o
        WHERE NOT EXISTS (SELECT FROM tickets t WHERE t.tenant_id = o.tenant_id AND t.concurrency_key = o.key)
          AND NOT EXISTS (SELECT FROM key_looks l WHERE l.tenant_id = o.tenant_id AND l.key = o.key)
        LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS keys = ROW_COUNT;
    -- A tenant that was moved from another cell brings starts of its keys, but no rows to lock.
    INSERT INTO key_locks (tenant_id, key) SELECT DISTINCT l.tenant_id, l.key FROM key_looks l ON CONFLICT DO NOTHING;
    RETURN pruned + keys;
END $$;

-- Analyze each control table that is several times as large as its statistics know; returns how many. Autovacuum does so
-- minutes later, and until then the planner reads a million fresh rows as if the table were empty.
CREATE OR REPLACE FUNCTION analyze_grown() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    grown regclass;
    analyzed bigint := 0;
BEGIN
    FOR grown IN
        SELECT c.oid::regclass FROM pg_catalog.pg_class c
        WHERE c.relnamespace = 'turno'::regnamespace AND c.relkind = 'r'
          AND pg_relation_size(c.oid) > greatest(1048576, 4 * c.relpages::bigint * current_setting('block_size')::bigint)
    LOOP
        EXECUTE format('ANALYZE (SKIP_LOCKED) %s', grown);
        analyzed := analyzed + 1;
    END LOOP;
    RETURN analyzed;
END $$;
