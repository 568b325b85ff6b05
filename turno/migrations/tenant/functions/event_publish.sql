-- An event, and a job for each type that runs for it, in the caller's transaction. Whoever changes subscriptions waits for
-- the lock: a new subscriber has each event either from here or from its backlog.
CREATE OR REPLACE FUNCTION event_publish(
    p_name text, p_key text, p_data jsonb, p_user text, p_backend text, p_correlation_id text, p_trace_context text,
    p_parent uuid)
RETURNS TABLE (event_id uuid, jobs integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET row_security = on AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'an older snapshot would not see who is subscribed by now' USING ERRCODE = 'TU012',
            HINT = 'publish in a transaction with the isolation level READ COMMITTED';
    END IF;
    PERFORM pg_advisory_xact_lock_shared(0, hashtext('turno.subscriptions'));
    INSERT INTO background_events (name, key, data, user_id) VALUES (p_name, p_key, p_data, p_user)
    RETURNING id INTO event_publish.event_id;
    SELECT count(event_deliver(event_publish.event_id, s.type, p_backend, p_correlation_id, p_trace_context, p_parent))
    INTO event_publish.jobs FROM turno.subscriptions s WHERE s.event = p_name;
    RETURN NEXT;
END $$;

-- Make the job of an event for a type; null if it has one. A subscriber that asks for order has its jobs of a key in an
-- order of their own, so that no other subscriber waits with it. Called by those alone who have pinned the path.
CREATE OR REPLACE FUNCTION event_deliver(
    p_event uuid, p_type text, p_backend text, p_correlation_id text DEFAULT NULL, p_trace_context text DEFAULT NULL,
    p_parent uuid DEFAULT NULL, p_again boolean DEFAULT false) RETURNS uuid
LANGUAGE plpgsql AS $$
DECLARE
    due timestamptz := clock_timestamp();
    one record;
    made uuid;
BEGIN
    SELECT e.data, e.user_id, h.version, h.queue, h.max_attempts, j.job_id AS former,
           CASE WHEN s.ordered AND e.key IS NOT NULL THEN p_type || ' in order: ' || e.key
                WHEN h.keyed THEN e.key END AS line,
           CASE WHEN s.ordered AND e.key IS NOT NULL THEN e.number END AS key_position INTO one
    FROM background_events e
    JOIN turno.handlers h ON h.type = p_type
    LEFT JOIN turno.subscriptions s ON s.event = e.name AND s.type = h.type
    LEFT JOIN background_event_jobs j ON j.event_id = e.id AND j.type = h.type
    WHERE e.id = p_event;
    IF NOT FOUND OR one.former IS NOT NULL AND NOT p_again THEN
        RETURN NULL;
    END IF;
    INSERT INTO background_jobs (type, version, queue, priority, payload, user_id, correlation_id, trace_context,
                                 max_attempts, run_at, parent_id, concurrency_key, key_position)
    VALUES (p_type, one.version, one.queue, 1, one.data, one.user_id, p_correlation_id, p_trace_context,
            one.max_attempts, due, p_parent, one.line, one.key_position)
    RETURNING id INTO made;
    INSERT INTO turno.tickets (job_id, tenant_id, queue, type, version, priority, run_at, state, backend, attempt,
                               concurrency_key, key_position)
    VALUES (made, turno.tenant_of(current_user), one.queue, p_type, one.version, 1, due,
            CASE WHEN one.line IS NULL THEN 'ready' ELSE 'scheduled' END, p_backend, 0, one.line, one.key_position);
    INSERT INTO background_event_jobs AS j (event_id, type, job_id) VALUES (p_event, p_type, made)
    ON CONFLICT (event_id, type) DO UPDATE SET job_id = excluded.job_id WHERE p_again;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the event % was given to % by somebody else meanwhile', p_event, p_type USING ERRCODE = '40001';
    END IF;
    -- The new job stands for one that failed: nobody behind it in an order waits for that one's dead letter.
    IF one.former IS NOT NULL THEN
        PERFORM job_discard(one.former, 'a replay of its event');
    END IF;
    RETURN made;
END $$;

-- Give a new subscriber events that were published before it was there, the oldest first; returns how many.
CREATE OR REPLACE FUNCTION event_backlog(p_name text, p_type text, p_backend text, p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET row_security = on AS $$
BEGIN
    RETURN (SELECT count(event_deliver(due.id, p_type, p_backend)) FROM (
        SELECT e.id FROM background_events e
        WHERE e.name = p_name
          AND NOT EXISTS (SELECT FROM background_event_jobs j WHERE j.event_id = e.id AND j.type = p_type)
        ORDER BY e.published_at, e.id LIMIT p_limit FOR UPDATE SKIP LOCKED) AS due);
END $$;

-- Give a subscriber events again, in their order: those of its names from p_since on, after p_after. Returns how many and
-- the last of them; in a p_dry run nothing is made.
CREATE OR REPLACE FUNCTION event_replay(
    p_type text, p_since timestamptz, p_until timestamptz, p_after uuid, p_limit integer, p_backend text, p_dry boolean)
RETURNS TABLE (replayed bigint, last_id uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET row_security = on AS $$
DECLARE
    due uuid[] := ARRAY(SELECT e.id FROM background_events e
                        WHERE e.name IN (SELECT s.event FROM turno.subscriptions s WHERE s.type = p_type)
                          AND e.published_at >= p_since AND e.published_at < p_until
                          AND (p_after IS NULL OR (e.published_at, e.id) > (SELECT a.published_at, a.id
                                                                            FROM background_events a WHERE a.id = p_after))
                        ORDER BY e.published_at, e.id LIMIT p_limit);
BEGIN
    replayed := cardinality(due);
    last_id := due[replayed];
    IF NOT p_dry THEN
        PERFORM pg_advisory_xact_lock_shared(0, hashtext('turno.subscriptions'));
        PERFORM event_deliver(d.id, p_type, p_backend, p_again => true)
        FROM unnest(due) WITH ORDINALITY AS d (id, n) ORDER BY d.n;
    END IF;
    RETURN NEXT;
END $$;

-- An event of a running attempt, published with what the attempt commits.
CREATE OR REPLACE FUNCTION event_publish_child(p_job uuid, p_token uuid, p_name text, p_key text, p_data jsonb)
RETURNS TABLE (event_id uuid, jobs integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    parent record := claimed_job(p_job, p_token);
BEGIN
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
