-- The oldest due ticket of each tenant that has one.
CREATE OR REPLACE FUNCTION due_of_each(p_until timestamptz, p_limit integer) RETURNS uuid[] LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE waiting AS (
            (SELECT t.tenant_id FROM tickets t WHERE t.state = 'scheduled' ORDER BY t.tenant_id LIMIT 1)
            UNION ALL
            SELECT n.tenant_id FROM waiting w CROSS JOIN LATERAL (
                SELECT t.tenant_id FROM tickets t WHERE t.state = 'scheduled' AND t.tenant_id > w.tenant_id
                ORDER BY t.tenant_id LIMIT 1) AS n
        )
        SELECT due.job_id FROM waiting w CROSS JOIN LATERAL (
            SELECT t.job_id FROM tickets t
            WHERE t.state = 'scheduled' AND t.tenant_id = w.tenant_id AND t.run_at <= p_until
            ORDER BY t.run_at, t.job_id LIMIT 1 FOR UPDATE SKIP LOCKED) AS due
        LIMIT p_limit);
END $$;

-- Make due tickets ready, or waiting for their keys, the oldest first, p_limit at most; continue the jobs whose parts have
-- ended, and admit jobs of the keys that are due. If more are due, the oldest of every
-- tenant are among them, so no tenant waits for the due tickets of another. Promoted tickets leave dead index entries while an
-- old snapshot keeps them: if many precede the first due ticket, `since` and `after` name the ticket behind which the caller
-- may start the next call.
CREATE OR REPLACE FUNCTION promote(
    p_limit integer, p_since timestamptz DEFAULT '-infinity',
    p_after uuid DEFAULT '00000000-0000-0000-0000-000000000000',
    OUT promoted bigint, OUT since timestamptz, OUT after uuid)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    now timestamptz := clock_timestamp();
    read bigint := pg_stat_get_xact_tuples_returned('tickets_due'::regclass);
    due uuid[];
    joined uuid[];
    locked uuid[];
BEGIN
    due := ARRAY(
        SELECT t.job_id FROM tickets t
        WHERE t.state = 'scheduled' AND (t.run_at, t.job_id) > (p_since, p_after) AND t.run_at <= now
        ORDER BY t.run_at, t.job_id LIMIT p_limit
        FOR UPDATE SKIP LOCKED);
    IF pg_stat_get_xact_tuples_returned('tickets_due'::regclass) - read > p_limit + 100 OR p_since > '-infinity' THEN
        SELECT t.run_at, t.job_id INTO since, after FROM tickets t WHERE t.job_id = due[cardinality(due)];
        IF NOT FOUND THEN
            since := greatest(p_since, now - interval '2 s');
            after := p_after;
        END IF;
    END IF;
    IF cardinality(due) = p_limit THEN
        due := due || due_of_each(now, p_limit);
    END IF;
    -- Jobs whose parts have all ended, or that continue early. Of two parts that end at the same time, the later commit
    -- inserts a row that is read with a snapshot in which both have ended; so does a job that begins to wait.
    WITH word AS (
        DELETE FROM part_looks WHERE ctid IN (
            SELECT l.ctid FROM part_looks l WHERE l.at <= clock_timestamp() ORDER BY l.at LIMIT 1000 FOR UPDATE SKIP LOCKED)
        RETURNING tenant_id, job_id, early
    )
    SELECT array_agg(DISTINCT w.job_id) INTO joined
    FROM word w JOIN tickets t ON t.job_id = w.job_id AND t.tenant_id = w.tenant_id
    WHERE w.early
       OR NOT EXISTS (SELECT FROM tickets p WHERE p.awaited_by = w.job_id AND p.tenant_id = w.tenant_id);
    IF joined IS NOT NULL THEN
        locked := ARRAY(SELECT t.job_id FROM tickets t
                        WHERE t.job_id = ANY (joined) AND t.state = 'parts' FOR NO KEY UPDATE SKIP LOCKED);
        INSERT INTO part_looks (tenant_id, job_id, early)  -- another session is changing these tickets
        SELECT t.tenant_id, t.job_id, true FROM tickets t WHERE t.job_id = ANY (joined) AND t.state = 'parts'
          AND t.job_id <> ALL (locked);
        UPDATE tickets SET run_at = clock_timestamp() WHERE job_id = ANY (locked);
        due := due || locked;
    END IF;
    promoted := CASE WHEN due = '{}' THEN 0 ELSE tickets_change(due) END;
    -- Keys that are due. Keys that another transaction has locked stay due.
    promoted := promoted + (SELECT coalesce(sum(key_admit(k.tenant_id, k.key)), 0) FROM (
        SELECT DISTINCT locked_keys.tenant_id, locked_keys.key FROM (
            SELECT l.tenant_id, l.key FROM key_looks l JOIN key_locks k ON k.tenant_id = l.tenant_id AND k.key = l.key
            WHERE l.at <= clock_timestamp() ORDER BY l.at LIMIT p_limit
            FOR NO KEY UPDATE OF k SKIP LOCKED) AS locked_keys) AS k);
END $$;

-- Give these tickets their p_backends, in step, or with NULL make them ready, or waiting if they have a key; returns how many tickets changed. A ticket that the
-- database refuses delays no other ticket: it is set aside in the state `review` until a person has checked it, and the worker
-- logs the warning. Only the content of the row counts as refused, not a lock or a full disk.
CREATE OR REPLACE FUNCTION tickets_change(p_jobs uuid[], p_backends text[] DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    changed bigint;
    why text;
BEGIN
    BEGIN
        IF p_backends IS NOT NULL THEN
            UPDATE tickets t SET backend = s.backend, published_at = NULL
            FROM unnest(p_jobs, p_backends) AS s (job_id, backend) WHERE t.job_id = s.job_id;
            GET DIAGNOSTICS changed = ROW_COUNT;
            RETURN changed;
        END IF;
        WITH made AS (
            UPDATE tickets SET state = CASE WHEN concurrency_key IS NULL THEN 'ready' ELSE 'waiting' END
            WHERE job_id = ANY (p_jobs)
            RETURNING tenant_id, concurrency_key
        ), keys AS (
            SELECT DISTINCT m.tenant_id, m.concurrency_key AS key FROM made m WHERE m.concurrency_key IS NOT NULL
        ), locks AS (  -- in one order, because another promote that inserts the same key waits
            INSERT INTO key_locks (tenant_id, key) SELECT k.tenant_id, k.key FROM keys k ORDER BY 1, 2 ON CONFLICT DO NOTHING
        ), looks AS (
            INSERT INTO key_looks (tenant_id, key, at, start) SELECT k.tenant_id, k.key, clock_timestamp(), false FROM keys k
        )
        SELECT count(*) INTO changed FROM made;
        RETURN changed;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        why := SQLERRM;
    END;
    IF cardinality(p_jobs) > 1 THEN  -- each ticket alone
        RETURN (SELECT sum(tickets_change(p_jobs[i:i], p_backends[i:i])) FROM generate_subscripts(p_jobs, 1) AS i);
    END IF;
    BEGIN
        UPDATE tickets SET state = 'review', run_at = 'infinity', published_at = NULL WHERE job_id = p_jobs[1];
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        why := why || '; it cannot be set aside either';
    END;
    RAISE WARNING 'job % of % was set aside, its ticket is refused: %', p_jobs[1],
        (SELECT n.slug FROM tickets t JOIN tenants n ON n.id = t.tenant_id WHERE t.job_id = p_jobs[1]), why;
    RETURN 0;
END $$;

-- The seconds until the next ticket, the next job of a key or the next check of a job's parts is due; NULL if more than
-- p_within. A worker without work looks again then. Tickets that are due for longer than 2 s do not count: promote has
-- seen them.
CREATE OR REPLACE FUNCTION due_in(p_within interval) RETURNS double precision
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    now timestamptz := clock_timestamp();
    since timestamptz := now - interval '2 s';
BEGIN
    RETURN (SELECT extract(epoch FROM min(d.at) - now) FROM (
        (SELECT t.run_at::timestamptz AS at FROM tickets t
         WHERE t.state = 'scheduled' AND t.run_at > since AND t.run_at <= now + p_within
         ORDER BY t.run_at LIMIT 1)
        UNION ALL
        (SELECT k.at FROM key_looks k WHERE k.at > since AND k.at <= now + p_within ORDER BY k.at LIMIT 1)
        UNION ALL
        (SELECT l.at FROM part_looks l WHERE l.at > since AND l.at <= now + p_within ORDER BY l.at LIMIT 1)) AS d);
END $$;

-- The state of a ticket that waits for its time: only promote makes a ticket with a concurrency key ready.
CREATE OR REPLACE FUNCTION due_state(p_run_at timestamptz, p_concurrency_key text) RETURNS text LANGUAGE sql VOLATILE
RETURN CASE WHEN p_run_at = 'infinity' THEN 'review'
            WHEN p_run_at > clock_timestamp() OR p_concurrency_key IS NOT NULL THEN 'scheduled' ELSE 'ready' END;

-- A part has ended: insert a row for the job that waits for it.
CREATE OR REPLACE FUNCTION part_left() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO part_looks (tenant_id, job_id, early) VALUES (OLD.tenant_id, OLD.awaited_by, false);
    RETURN NULL;
END $$;
