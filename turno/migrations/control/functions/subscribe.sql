-- For which events these types run from now on, in step: one type may come several times. Told with `announce`, by code
-- that is at least as new as the version that is known. A change waits until no transaction is open that has published:
-- so each event is either given to the new type by that transaction, or seen by its backlog.
CREATE OR REPLACE FUNCTION subscribe(
    p_types text[], p_versions smallint[], p_events text[], p_subscribers text[], p_backlogs boolean[],
    p_ordered boolean[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '5s' AS $$
DECLARE
    own text[] := ARRAY(SELECT h.type FROM unnest(p_types, p_versions) AS t (type, version)
                        JOIN handlers h ON h.type = t.type AND h.version <= t.version);
    known text[];
    wanted text[];
BEGIN
    SELECT array_agg(concat_ws(' ', s.event, s.type, s.ordered) ORDER BY s.event, s.type) INTO known
    FROM subscriptions s WHERE s.type = ANY (own);
    -- A process of the release before says nothing of an order.
    SELECT array_agg(concat_ws(' ', w.event, w.type, coalesce(w.ordered, s.ordered, false)) ORDER BY w.event, w.type) INTO wanted
    FROM unnest(p_events, p_subscribers, p_ordered) AS w (event, type, ordered)
    LEFT JOIN subscriptions s ON (s.event, s.type) = (w.event, w.type)
    WHERE w.type = ANY (own);
    IF known IS NOT DISTINCT FROM wanted THEN
        RETURN;
    END IF;
    PERFORM pg_advisory_xact_lock(0, hashtext('turno.subscriptions'));
    DELETE FROM subscriptions s
    WHERE s.type = ANY (own) AND NOT EXISTS (SELECT FROM unnest(p_events, p_subscribers) AS w (event, type)
                                             WHERE (w.event, w.type) = (s.event, s.type));
    INSERT INTO subscriptions (event, type, backlog, from_beginning, ordered)
    SELECT w.event, w.type, w.backlog, w.backlog, coalesce(w.ordered, false)
    FROM unnest(p_events, p_subscribers, p_backlogs, p_ordered) AS w (event, type, backlog, ordered)
    WHERE w.type = ANY (own)
    ON CONFLICT (event, type) DO UPDATE SET ordered = excluded.ordered WHERE p_ordered IS NOT NULL;
END $$;

-- The subscriptions that have not been given what was published before they were there.
CREATE OR REPLACE FUNCTION subscriptions_behind() RETURNS TABLE (event text, type text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT s.event, s.type::text FROM subscriptions s WHERE s.backlog ORDER BY 1, 2;
END;

-- They have been, in every tenant. What is in an order has waited for that: word is left for it. Who publishes waits
-- meanwhile, or its job would be seen neither here nor, by whoever promotes, as one that may go.
CREATE OR REPLACE FUNCTION subscription_caught_up(p_event text, p_type text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '5s' AS $$
DECLARE
    in_order boolean;
BEGIN
    SELECT s.ordered INTO in_order FROM subscriptions s WHERE s.event = p_event AND s.type = p_type;
    IF in_order THEN
        PERFORM pg_advisory_xact_lock(0, hashtext('turno.subscriptions'));
    END IF;
    UPDATE subscriptions SET backlog = false WHERE event = p_event AND type = p_type;
    IF in_order THEN
        INSERT INTO key_looks (tenant_id, key, at, start)
        SELECT DISTINCT t.tenant_id, t.concurrency_key, clock_timestamp(), false
        FROM tickets t WHERE t.type = p_type AND t.key_position IS NOT NULL;
    END IF;
END $$;
