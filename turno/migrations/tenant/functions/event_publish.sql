-- An event, and a job for each type that subscribes to it in the transaction's snapshot. No lock is shared with another
-- publisher, a deployment or maintenance.
CREATE OR REPLACE FUNCTION event_publish(
    p_name text, p_key text, p_data jsonb, p_user text, p_backend text, p_correlation_id text, p_trace_context text,
    p_parent uuid)
RETURNS TABLE (event_id uuid, jobs integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET row_security = on AS $$
BEGIN
    INSERT INTO background_events (name, key, data, user_id) VALUES (p_name, p_key, p_data, p_user)
    RETURNING id INTO event_publish.event_id;
    SELECT count(event_deliver(event_publish.event_id, s.type, p_backend, p_correlation_id, p_trace_context, p_parent))
    INTO event_publish.jobs FROM (SELECT DISTINCT o.type FROM turno.subscriptions o WHERE o.event = p_name) AS s;
    RETURN NEXT;
END $$;

-- Create the job of an event for a type; NULL if the event already has a job of the type, unless p_again. An ordered
-- subscriber has its own concurrency key, so that no other subscriber waits for it. The caller has pinned search_path.
CREATE OR REPLACE FUNCTION event_deliver(
    p_event uuid, p_type text, p_backend text, p_correlation_id text DEFAULT NULL, p_trace_context text DEFAULT NULL,
    p_parent uuid DEFAULT NULL, p_again boolean DEFAULT false) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    due timestamptz := clock_timestamp();
    event record;
    made uuid;
BEGIN
    SELECT e.data, e.user_id, h.version, h.queue, h.max_attempts, j.job_id AS former,
           CASE WHEN o.ordered THEN p_type || ' in order: ' || e.key WHEN h.keyed THEN e.key END AS line,
           CASE WHEN o.ordered THEN e.number END AS key_position INTO event
    FROM background_events e
    JOIN turno.handlers h ON h.type = p_type
    CROSS JOIN LATERAL (SELECT e.key IS NOT NULL AND EXISTS (
        SELECT FROM turno.subscriptions s WHERE s.event = e.name AND s.type = p_type AND s.ordered) AS ordered) AS o
    LEFT JOIN background_event_jobs j ON j.event_id = e.id AND j.type = h.type
    WHERE e.id = p_event;
    IF NOT FOUND OR event.former IS NOT NULL AND NOT p_again THEN
        RETURN NULL;
    END IF;
    INSERT INTO background_jobs (type, version, queue, priority, payload, user_id, correlation_id, trace_context,
                                 max_attempts, run_at, parent_id, concurrency_key, key_position)
    VALUES (p_type, event.version, event.queue, 1, event.data, event.user_id, p_correlation_id, p_trace_context,
            event.max_attempts, due, p_parent, event.line, event.key_position)
    RETURNING id INTO made;
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                               concurrency_key, key_position)
    VALUES (made, turno.tenant_of(current_user), event.queue, p_type, event.version, 1, due,
            CASE WHEN event.line IS NULL THEN 'ready' ELSE 'scheduled' END, p_backend, 0, event.line, event.key_position);
    INSERT INTO background_event_jobs AS j (event_id, type, job_id) VALUES (p_event, p_type, made)
    ON CONFLICT (event_id, type) DO UPDATE SET job_id = excluded.job_id WHERE p_again;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another transaction has just replayed the event % for %', p_event, p_type USING ERRCODE = '40001',
            HINT = 'repeat the command';
    END IF;
    -- The new job replaces a failed one, whose dead letter must not block later events of the key.
    IF event.former IS NOT NULL THEN
        PERFORM job_discard(event.former, 'a replay of its event');
    END IF;
    RETURN made;
END $$;

-- Replay a batch of events for a subscriber, in their order: those of p_name, or of all its names, from p_since until
-- p_until, after p_after; with p_missing only events without a job of the type. Returns how many and the last event of the
-- batch. A dry run creates nothing.
CREATE OR REPLACE FUNCTION event_replay(
    p_type text, p_name text, p_since timestamptz, p_until timestamptz, p_after uuid, p_limit integer, p_backend text,
    p_missing boolean, p_dry boolean)
RETURNS TABLE (replayed bigint, last_id uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET row_security = on AS $$
DECLARE
    due uuid[] := ARRAY(SELECT e.id FROM background_events e
                        WHERE (e.name = p_name OR p_name IS NULL AND e.name IN (
                                   SELECT s.event FROM turno.subscriptions s WHERE s.type = p_type))
                          AND e.published_at >= p_since AND e.published_at < p_until
                          AND (p_after IS NULL OR (e.published_at, e.id) > (SELECT a.published_at, a.id
                                                                            FROM background_events a WHERE a.id = p_after))
                          AND NOT (p_missing AND EXISTS (SELECT FROM background_event_jobs j
                                                         WHERE j.event_id = e.id AND j.type = p_type))
                        ORDER BY e.published_at, e.id LIMIT p_limit);
BEGIN
    replayed := cardinality(due);
    last_id := due[replayed];
    IF NOT p_dry THEN
        PERFORM event_deliver(d.id, p_type, p_backend, p_again => NOT p_missing)
        FROM unnest(due) WITH ORDINALITY AS d (id, n) ORDER BY d.n;
    END IF;
    RETURN NEXT;
END $$;

-- An event of a running attempt, published with what the attempt commits; its jobs count against the limit of child jobs.
CREATE OR REPLACE FUNCTION event_publish_child(p_job uuid, p_token uuid, p_name text, p_key text, p_data jsonb)
RETURNS TABLE (event_id uuid, jobs integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    parent record := claimed_job(p_job, p_token);
BEGIN
    PERFORM assert_few_open(parent.user_id, (SELECT count(DISTINCT s.type)::integer FROM turno.subscriptions s
                                             WHERE s.event = p_name));
    RETURN QUERY SELECT e.event_id, e.jobs FROM event_publish(
        p_name, p_key, p_data, parent.user_id, parent.backend, parent.correlation_id, parent.trace_context, p_job) AS e;
END $$;

-- Remove events that were published longer ago than that, up to p_limit of them; returns how many.
CREATE OR REPLACE FUNCTION event_purge(p_older_than interval, p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    removed bigint;
BEGIN
    DELETE FROM background_events WHERE id = ANY (ARRAY(
        SELECT e.id FROM background_events e WHERE e.published_at < clock_timestamp() - p_older_than
        ORDER BY e.published_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS removed = ROW_COUNT;
    RETURN removed;
END $$;
