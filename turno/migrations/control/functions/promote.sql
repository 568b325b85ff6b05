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

-- Make due tickets ready, or waiting for their keys, the oldest first, p_limit at most. If more are due, the oldest of every
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
    due := due || parts_look();
    promoted := CASE WHEN due = '{}' THEN 0 ELSE tickets_change(due) END;
    promoted := promoted + keys_look(p_limit);
END $$;
