-- Register the events that the types of running code subscribe to. p_handlers is an array of objects with `type`,
-- `subscribes` and `ordered`. A subscription that no process has announced for a day is removed; p_pause, the time in which
-- no process announced anything, does not count.
CREATE OR REPLACE FUNCTION subscribe(p_handlers jsonb, p_pause interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now timestamptz := clock_timestamp();
BEGIN
    UPDATE subscriptions SET seen_at = least(seen_at + p_pause, now) WHERE p_pause IS NOT NULL;
    INSERT INTO subscriptions (event, type, ordered)
    SELECT w.event, a.type, a.ordered
    FROM jsonb_to_recordset(p_handlers) AS a (type text, subscribes text[], ordered boolean)
    CROSS JOIN LATERAL unnest(a.subscribes) AS w (event)
    WHERE NOT EXISTS (SELECT FROM subscriptions s WHERE (s.event, s.type, s.ordered) = (w.event, a.type, a.ordered)
                      AND s.seen_at >= now - interval '1 minute')
    ORDER BY 1, 2, 3
    ON CONFLICT (event, type, ordered) DO UPDATE SET seen_at = now;
    DELETE FROM subscriptions s USING (SELECT event, type, ordered FROM subscriptions
                                       WHERE seen_at < now - interval '1 day' FOR UPDATE SKIP LOCKED) AS old
    WHERE (s.event, s.type, s.ordered) = (old.event, old.type, old.ordered);
END $$;
