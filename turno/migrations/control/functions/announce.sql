-- Register the job types of running code, and the events that they subscribe to, so that SQL can enqueue and publish.
-- p_handlers is an array of objects with the columns of `handlers`, `subscribes` and `ordered`. A type keeps the values of
-- its newest version; with p_older, for `turno migrate` after a rollback, an older version replaces them. An announcement
-- removes nothing, because code of another release may be running: prune_announcements does.
CREATE OR REPLACE FUNCTION announce(p_handlers jsonb, p_pending_limit integer, p_older boolean) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now timestamptz := clock_timestamp();
    pause interval := now - (SELECT max(h.seen_at) FROM handlers h);
BEGIN
    -- While no process announces, no name ages: the subscriptions of all workers survive a weekend without any.
    IF pause > interval '1 hour' THEN
        UPDATE handlers SET seen_at = least(seen_at + pause, now);
        UPDATE subscriptions SET seen_at = least(seen_at + pause, now);
    END IF;
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
    INSERT INTO subscriptions (event, type, ordered)
    SELECT w.event, a.type, a.ordered
    FROM jsonb_to_recordset(p_handlers) AS a (type text, subscribes text[], ordered boolean)
    CROSS JOIN LATERAL unnest(a.subscribes) AS w (event)
    WHERE NOT EXISTS (SELECT FROM subscriptions s WHERE (s.event, s.type, s.ordered) = (w.event, a.type, a.ordered)
                      AND s.seen_at >= now - interval '1 minute')
    ORDER BY 1, 2, 3
    ON CONFLICT (event, type, ordered) DO UPDATE SET seen_at = now;
END $$;

-- Remove the subscriptions that no announcement has named for a day, and such types without an open job or a living worker;
-- returns how many.
CREATE OR REPLACE FUNCTION prune_announcements() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    oldest timestamptz := clock_timestamp() - interval '1 day';
    subscribed bigint;
    typed bigint;
BEGIN
    DELETE FROM subscriptions WHERE seen_at < oldest;
    GET DIAGNOSTICS subscribed = ROW_COUNT;
    DELETE FROM handlers h
    WHERE h.seen_at < oldest
      AND NOT EXISTS (SELECT FROM tickets t WHERE t.type = h.type)
      AND NOT EXISTS (SELECT FROM workers w WHERE h.type = ANY (w.types));
    GET DIAGNOSTICS typed = ROW_COUNT;
    RETURN subscribed + typed;
END $$;
