-- The same, one by one: what is refused is set aside, and keeps nobody else waiting.
CREATE OR REPLACE FUNCTION promote_each(p_from spot, p_until timestamptz, p_limit integer) RETURNS spot[]
LANGUAGE plpgsql AS $$
DECLARE
    due tickets;
    promoted spot[];
BEGIN
    FOR due IN SELECT * FROM tickets t
               WHERE t.state = 'scheduled' AND (t.run_at, t.job_id) >= (p_from.run_at, p_from.job_id) AND t.run_at <= p_until
               ORDER BY t.run_at, t.job_id LIMIT p_limit
               FOR UPDATE SKIP LOCKED LOOP
        BEGIN
            UPDATE tickets SET state = 'ready' WHERE job_id = due.job_id;
            promoted := promoted || (0, 0, due.run_at, due.job_id)::spot;
        EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
            PERFORM set_aside(due.job_id, SQLERRM);
        END;
    END LOOP;
    RETURN promoted;
END $$;

-- Due tickets become ready, the oldest first; bounded, so that a claim never pays for a night's worth at once.
-- What was promoted leaves dead entries as well, so those that wait for their time are a lane, too.
CREATE OR REPLACE FUNCTION promote(p_limit integer, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off AS $$
DECLARE
    waiting lane := ('', '', '', 0, 'due', false, false, NULL, NULL);
    since timestamptz := clock_timestamp();
    known mark := (marks(waiting, 0))[1];
    here spot := spot_of(0);
    walked bigint := pg_stat_get_xact_tuples_returned('tickets_due'::regclass);
    promoted spot[];
BEGIN
    IF p_dry_run THEN
        RETURN (SELECT count(*) FROM tickets t WHERE t.state = 'scheduled' AND t.run_at <= since);
    END IF;
    IF known.busy_until > since THEN
        here := (0, 0, known.run_at, known.job_id);
    END IF;
    BEGIN
        WITH due AS (
            SELECT t.job_id FROM tickets t
            WHERE t.state = 'scheduled' AND (t.run_at, t.job_id) >= (here.run_at, here.job_id) AND t.run_at <= since
            ORDER BY t.run_at, t.job_id LIMIT p_limit
            FOR UPDATE SKIP LOCKED
        ), ready AS (
            UPDATE tickets t SET state = 'ready' WHERE t.job_id = ANY (ARRAY(SELECT job_id FROM due)) RETURNING t.run_at, t.job_id
        )
        SELECT array_agg((0, 0, run_at, job_id)::spot ORDER BY run_at, job_id) INTO promoted FROM ready;
    EXCEPTION WHEN data_exception OR integrity_constraint_violation OR program_limit_exceeded THEN
        promoted := promote_each(here, since, p_limit);
    END;
    walked := pg_stat_get_xact_tuples_returned('tickets_due'::regclass) - walked;
    IF walked > p_limit + 100 THEN
        PERFORM remember_mark(waiting, here, coalesce(promoted[1], spot_of(0, 0, since)),
                              least(greatest(20 * (clock_timestamp() - since), '1 s'), '5 s'), '0 s');
    END IF;
    RETURN coalesce(cardinality(promoted), 0);
END $$;
