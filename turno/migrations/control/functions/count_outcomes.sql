-- Add the outcomes of up to p_limit batches to the statistics; returns their number.
CREATE OR REPLACE FUNCTION count_outcomes(p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    counted bigint;
BEGIN
    WITH pairs AS MATERIALIZED (
        SELECT o.tenant_id, n.company_id, date_trunc('minute', o.at) AS minute, o.type, coalesce(h.type, '(other)') AS known,
               o.outcome, width_bucket(o.wait_ms - 1, outcome_bounds())::smallint AS wait_bucket,
               coalesce(width_bucket(o.run_ms - 1, outcome_bounds()), -1)::smallint AS run_bucket,
               count(*) AS n, count(o.run_ms) AS attempts, sum(o.wait_ms) AS wait_ms,
               coalesce(sum(o.run_ms), 0) AS run_ms, coalesce(sum(o.items_done), 0) AS items_done,
               coalesce(sum(o.items_failed), 0) AS items_failed
        FROM outcomes_read('statistics', p_limit) o
        JOIN tenants n ON n.id = o.tenant_id LEFT JOIN handlers h ON h.type = o.type
        GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
    ), cells AS (
        SELECT s.scope, s.minute, s.type, p.outcome, s.wait_bucket, s.run_bucket, sum(p.n) AS n,
               sum(p.attempts) AS attempts, sum(p.wait_ms) AS wait_ms, sum(p.run_ms) AS run_ms,
               sum(p.items_done) AS items_done, sum(p.items_failed) AS items_failed
        FROM pairs p CROSS JOIN LATERAL (VALUES
            (p.tenant_id, p.minute, p.type, p.wait_bucket, -1::smallint),
            (-p.company_id, p.minute, p.known, p.wait_bucket, -1::smallint),
            (0, p.minute, p.known, p.wait_bucket, -1::smallint),
            (p.tenant_id, '-infinity', p.known, -1::smallint, -1::smallint),
            (0, '-infinity', p.known, p.wait_bucket, p.run_bucket)
        ) AS s (scope, minute, type, wait_bucket, run_bucket)
        GROUP BY s.scope, s.minute, s.type, p.outcome, s.wait_bucket, s.run_bucket
    ), added AS (
        INSERT INTO statistics AS s
        SELECT scope, minute, type, outcome, sum(n), sum(attempts), sum(run_ms), sum(items_done), sum(items_failed),
               array_agg(wait_bucket), array_agg(run_bucket), array_agg(n::bigint), array_agg(wait_ms::bigint)
        FROM cells GROUP BY scope, minute, type, outcome
        ON CONFLICT (scope, minute, type, outcome) DO UPDATE
        SET outcomes = s.outcomes + excluded.outcomes, attempts = s.attempts + excluded.attempts,
            run_ms = s.run_ms + excluded.run_ms, items_done = s.items_done + excluded.items_done,
            items_failed = s.items_failed + excluded.items_failed,
            (wait_buckets, run_buckets, counts, wait_ms) = (
                SELECT array_agg(a.wait), array_agg(a.run), array_agg(a.n), array_agg(a.ms) FROM (
                    SELECT u.wait, u.run, sum(u.n)::bigint AS n, sum(u.ms)::bigint AS ms
                    FROM unnest(s.wait_buckets || excluded.wait_buckets, s.run_buckets || excluded.run_buckets,
                                s.counts || excluded.counts, s.wait_ms || excluded.wait_ms) AS u (wait, run, n, ms)
                    GROUP BY u.wait, u.run) AS a)
    )
    SELECT coalesce(sum(n), 0) INTO counted FROM pairs;
    RETURN counted;
END $$;

-- The outcomes of the next batches that this reader has not read. Batches become visible in the order of their commits. When
-- the reader has read all numbered batches, it numbers up to p_limit others, above every number that was read before. The locks
-- on the readers' rows last until the caller's transaction ends: calls number batches singly, and the caller's writes commit
-- with its position.
CREATE OR REPLACE FUNCTION outcomes_read(p_reader text, p_limit integer) RETURNS SETOF outcomes
LANGUAGE plpgsql AS $$
DECLARE
    next bigint;
BEGIN
    PERFORM FROM outcome_readers ORDER BY reader FOR UPDATE;
    SELECT min(b.position) INTO next
    FROM outcome_readers r JOIN outcome_batches b ON b.position > r.position WHERE r.reader = p_reader;
    IF next IS NULL THEN
        SELECT max(r.position) + 1 INTO next FROM outcome_readers r;
        UPDATE outcome_batches SET position = next
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM outcome_batches WHERE position IS NULL ORDER BY at LIMIT p_limit));
    END IF;
    UPDATE outcome_readers SET position = next, read_at = clock_timestamp() WHERE reader = p_reader;
    RETURN QUERY SELECT * FROM outcomes o WHERE o.position = next;
END $$;
