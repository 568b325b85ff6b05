-- Make these ready; one that is refused is set aside, and keeps nobody else waiting. Returns how many are.
CREATE OR REPLACE FUNCTION make_ready(p_jobs uuid[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    made bigint;
    one uuid;
BEGIN
    BEGIN
        UPDATE tickets SET state = 'ready' WHERE job_id = ANY (p_jobs);
        GET DIAGNOSTICS made = ROW_COUNT;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        made := 0;
        FOREACH one IN ARRAY p_jobs LOOP
            BEGIN
                UPDATE tickets SET state = 'ready' WHERE job_id = one;
                made := made + 1;
            EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
                PERFORM set_aside(one, SQLERRM);
            END;
        END LOOP;
    END;
    RETURN made;
END $$;

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

-- Due tickets become ready, the oldest first; bounded, so that a claim never pays for a night's worth at once. Where
-- more is due than that, every tenant's oldest is among it: no tenant waits for all that is due of another.
-- What was promoted leaves dead entries as well, so those that wait for their time are a lane, too.
CREATE OR REPLACE FUNCTION promote(p_limit integer, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    waiting lane := ('', '', '', 0, 'due', false, false, NULL, NULL);
    since timestamptz := clock_timestamp();
    known mark := (marks(waiting, 0))[1];
    here spot := spot_of(0);
    first spot;
    walked bigint := pg_stat_get_xact_tuples_returned('tickets_due'::regclass);
    due uuid[];
BEGIN
    IF p_dry_run THEN
        RETURN (SELECT count(*) FROM tickets t WHERE t.state = 'scheduled' AND t.run_at <= since);
    END IF;
    IF known.busy_until > since THEN
        here := (0, 0, known.run_at, known.job_id);
    END IF;
    due := ARRAY(
        SELECT t.job_id FROM tickets t
        WHERE t.state = 'scheduled' AND (t.run_at, t.job_id) >= (here.run_at, here.job_id) AND t.run_at <= since
        ORDER BY t.run_at, t.job_id LIMIT p_limit
        FOR UPDATE SKIP LOCKED);
    walked := pg_stat_get_xact_tuples_returned('tickets_due'::regclass) - walked;
    IF walked > p_limit + 100 THEN
        first := (SELECT (0, 0, t.run_at, t.job_id)::spot FROM tickets t WHERE t.job_id = due[1]);
        PERFORM remember_mark(waiting, here, coalesce(first, spot_of(0, 0, since)),
                              least(greatest(20 * (clock_timestamp() - since), '1 s'), '5 s'), '0 s');
    END IF;
    IF cardinality(due) = p_limit THEN
        due := due || due_of_each(since, p_limit);
    END IF;
    RETURN CASE WHEN due = '{}' THEN 0 ELSE make_ready(due) END;
END $$;
