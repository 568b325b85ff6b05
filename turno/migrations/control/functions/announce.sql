-- Register the job types of running code, so that SQL can enqueue. p_handlers is an array of objects with the columns of
-- `handlers`. A type keeps the values of its newest version; with p_older, for `turno db migrate` after a rollback, an older
-- version replaces them. An announcement removes nothing, because code of another release may be running: prune does.
-- Returns the time in which no process announced, or NULL: capabilities add it to the ages of their facts.
CREATE OR REPLACE FUNCTION announce(p_handlers jsonb, p_pending_limit integer, p_older boolean) RETURNS interval
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now timestamptz := clock_timestamp();
    pause interval := (SELECT now - max(h.seen_at) FROM handlers h HAVING now - max(h.seen_at) > interval '1 hour');
BEGIN
    -- While no process announces, no type ages: all types survive a weekend without workers.
    UPDATE handlers SET seen_at = least(seen_at + pause, now) WHERE pause IS NOT NULL;
    INSERT INTO handlers AS h (type, version, queue, max_attempts, pending_limit, other_queues, keyed, key_limit, key_rate,
                               key_period)
    SELECT a.type, a.version, a.queue, a.max_attempts, p_pending_limit, a.other_queues, a.keyed, a.key_limit, a.key_rate,
           a.key_period
    FROM jsonb_populate_recordset(NULL::handlers, p_handlers) AS a
    -- ON CONFLICT locks a row even where nothing changes.
    WHERE NOT EXISTS (
        SELECT FROM handlers k WHERE k.type = a.type
          AND (k.version > a.version AND NOT p_older
               OR (k.version, k.queue, k.max_attempts, k.pending_limit, k.other_queues, k.keyed, k.key_limit, k.key_rate,
                   k.key_period)
                  IS NOT DISTINCT FROM (a.version, a.queue, a.max_attempts, p_pending_limit, a.other_queues, a.keyed,
                                        a.key_limit, a.key_rate, a.key_period)))
    ORDER BY a.type
    ON CONFLICT (type) DO UPDATE
    SET version = excluded.version, queue = excluded.queue, max_attempts = excluded.max_attempts,
        pending_limit = excluded.pending_limit, other_queues = excluded.other_queues, keyed = excluded.keyed,
        key_limit = excluded.key_limit, key_rate = excluded.key_rate, key_period = excluded.key_period
    WHERE excluded.version >= h.version OR p_older;
    UPDATE handlers SET seen_at = now WHERE type IN (
        SELECT h.type FROM handlers h JOIN jsonb_populate_recordset(NULL::handlers, p_handlers) AS a USING (type)
        WHERE h.seen_at < now - interval '1 minute' FOR NO KEY UPDATE OF h SKIP LOCKED);
    INSERT INTO handler_payloads (type, version, payload)
    SELECT a.type, a.version, a.payload
    FROM jsonb_populate_recordset(NULL::handler_payloads, p_handlers) AS a
    WHERE NOT EXISTS (SELECT FROM handler_payloads k
                      WHERE (k.type, k.version, k.payload) = (a.type, a.version, a.payload))
    ORDER BY a.type
    ON CONFLICT DO NOTHING;
    UPDATE handler_payloads SET seen_at = now WHERE (type, version, payload) IN (
        SELECT h.type, h.version, h.payload
        FROM handler_payloads h JOIN jsonb_populate_recordset(NULL::handler_payloads, p_handlers) AS a
            USING (type, version, payload)
        WHERE h.seen_at < now - interval '1 minute' FOR NO KEY UPDATE OF h SKIP LOCKED);
    RETURN pause;
END $$;
