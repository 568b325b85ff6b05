-- Publish an event, and create a job for each type that subscribes in the transaction's snapshot. p_origin has the fields
-- that each job takes from the publisher. No lock is shared with another publisher, a deployment or maintenance.
CREATE OR REPLACE FUNCTION event_publish(p_name text, p_key text, p_data jsonb, p_origin turno.new_job)
RETURNS TABLE (event_id uuid, jobs integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off SET row_security = on AS $$
BEGIN
    INSERT INTO background_events (name, key, data, user_id) VALUES (p_name, p_key, p_data, p_origin.user_id)
    RETURNING id INTO event_publish.event_id;
    event_publish.jobs := event_deliver(
        ARRAY[event_publish.event_id], ARRAY(SELECT DISTINCT s.type::text FROM turno.subscriptions s WHERE s.event = p_name),
        p_origin, false);
    RETURN NEXT;
END $$;

-- Create the jobs of these events, in their order, for these types; an event that already has a job of the type gets a
-- second job only with p_again. Returns how many jobs. An ordered subscriber has its own concurrency key, so that no
-- other subscriber waits for it. The caller has pinned search_path.
CREATE OR REPLACE FUNCTION event_deliver(p_events uuid[], p_types text[], p_origin turno.new_job, p_again boolean)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    jobs turno.new_job[];
    events uuid[];
    formers uuid[];
    made integer;
BEGIN
    SELECT array_agg(d.job ORDER BY d.n, d.type), array_agg(d.id ORDER BY d.n, d.type), array_agg(d.former)
    INTO jobs, events, formers
    FROM (
        SELECT p.n, e.id, h.type, j.job_id AS former, jsonb_populate_record(p_origin, jsonb_build_object(
                   'priority', 1, 'type', h.type, 'version', h.version, 'queue', h.queue, 'max_attempts', h.max_attempts,
                   'payload', e.data, 'user_id', e.user_id, 'origin', 'event ' || e.id,
                   'key_position', CASE WHEN o.ordered THEN e.number END, 'concurrency_key',
                   CASE WHEN o.ordered THEN h.type || ' in order: ' || e.key WHEN h.keyed THEN e.key END)) AS job
        FROM unnest(p_events) WITH ORDINALITY AS p (id, n)
        JOIN background_events e ON e.id = p.id
        JOIN turno.handlers h ON h.type = ANY (p_types)
        CROSS JOIN LATERAL (SELECT e.key IS NOT NULL AND EXISTS (
            SELECT FROM turno.subscriptions s WHERE s.event = e.name AND s.type = h.type AND s.ordered) AS ordered) AS o
        LEFT JOIN background_event_jobs j ON j.event_id = e.id AND j.type = h.type
        WHERE j.job_id IS NULL OR p_again) AS d;
    IF jobs IS NULL THEN
        RETURN 0;
    END IF;
    INSERT INTO background_event_jobs AS j (event_id, type, job_id)
    SELECT events[e.n], (jobs[e.n]).type, e.job_id FROM jobs_enqueue(jobs) AS e
    ON CONFLICT (event_id, type) DO UPDATE SET job_id = excluded.job_id WHERE p_again;
    GET DIAGNOSTICS made = ROW_COUNT;
    IF made < cardinality(jobs) THEN
        RAISE EXCEPTION 'another transaction has just replayed an event of these for %', p_types[1] USING ERRCODE = '40001',
            HINT = 'repeat the command';
    END IF;
    -- The new job replaces a failed job: its dead letter must not block later events of the key.
    PERFORM job_discard(f, 'a replay of its event') FROM unnest(formers) AS f WHERE f IS NOT NULL;
    RETURN made;
END $$;

-- Replay a batch of events for a subscriber, in their order: of p_name, or of all its names, from p_since until
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
    origin turno.new_job;
BEGIN
    replayed := cardinality(due);
    last_id := due[replayed];
    IF NOT p_dry THEN
        origin.backend := p_backend;
        PERFORM event_deliver(due, ARRAY[p_type], origin, NOT p_missing);
    END IF;
    RETURN NEXT;
END $$;

-- Publish an event of a running attempt, with the commit of the attempt; its jobs count against the limit of child jobs.
CREATE OR REPLACE FUNCTION event_publish_child(p_job uuid, p_token uuid, p_name text, p_key text, p_data jsonb)
RETURNS TABLE (event_id uuid, jobs integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    origin turno.new_job := claimed_job(p_job, p_token);
BEGIN
    PERFORM assert_few_open(origin.user_id, (SELECT count(DISTINCT s.type)::integer FROM turno.subscriptions s
                                             WHERE s.event = p_name));
    RETURN QUERY SELECT e.event_id, e.jobs FROM event_publish(p_name, p_key, p_data, origin) AS e;
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
