-- Add up to p_limit outcomes to the statistics and delete them; returns their number. One statement reads, adds and deletes,
-- so that outcomes which commit meanwhile are counted the next time; the lock serialises calls. The same statement makes the
-- webhooks and mails of ended jobs due, and inserts those of operators' addresses.
-- It begins below the last id counted, because ids commit out of order. p_all: at the lowest id.
CREATE OR REPLACE FUNCTION count_outcomes(p_limit bigint, p_all boolean) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    first bigint;
    past bigint;
    counted bigint;
BEGIN
    SELECT CASE WHEN p_all THEN 0 ELSE below END INTO first FROM outcomes_counted FOR UPDATE;
    SELECT id INTO first FROM outcomes WHERE id >= first ORDER BY id LIMIT 1;
    past := first + p_limit;
    WITH added AS (
        INSERT INTO outcome_counts AS c SELECT * FROM uncounted_outcomes(first, past)
        ON CONFLICT (tenant_id, minute, type, outcome, wait_bucket, run_bucket) DO UPDATE
        SET outcomes = c.outcomes + excluded.outcomes, attempts = c.attempts + excluded.attempts,
            wait_ms = c.wait_ms + excluded.wait_ms, run_ms = c.run_ms + excluded.run_ms,
            items_done = c.items_done + excluded.items_done, items_failed = c.items_failed + excluded.items_failed
    ), loaded AS (
        INSERT INTO tenant_loads AS l SELECT * FROM uncounted_loads(first, past) ORDER BY slot, tenant_id, type
        ON CONFLICT (slot, tenant_id, type) DO UPDATE
        SET ended = l.ended + excluded.ended, run_ms = l.run_ms + excluded.run_ms,
            completed = l.completed + excluded.completed, failed = l.failed + excluded.failed,
            cancelled = l.cancelled + excluded.cancelled, retried = l.retried + excluded.retried,
            attempts = l.attempts + excluded.attempts,
            completed_with_failures = l.completed_with_failures + excluded.completed_with_failures,
            nothing_done = l.nothing_done + excluded.nothing_done,
            (wait_buckets, waits, wait_ms) = (
                SELECT array_agg(s.bucket), array_agg(s.n), array_agg(s.ms) FROM (
                    SELECT w.bucket, sum(w.n)::bigint AS n, sum(w.ms)::bigint AS ms
                    FROM unnest(l.wait_buckets || excluded.wait_buckets, l.waits || excluded.waits,
                                l.wait_ms || excluded.wait_ms) AS w (bucket, n, ms)
                    GROUP BY w.bucket) AS s)
    ), recent AS (
        INSERT INTO recent_ends AS e SELECT * FROM uncounted_ends(first, past) ORDER BY slot, tenant_id, type
        ON CONFLICT (slot, tenant_id, type) DO UPDATE
        SET ended = e.ended + excluded.ended, failed = e.failed + excluded.failed,
            items_done = e.items_done + excluded.items_done, items_failed = e.items_failed + excluded.items_failed
    ), gone AS (
        DELETE FROM outcomes WHERE id >= first AND id < past RETURNING id, job_id, tenant_id, type, outcome, at
    ), kept AS (
        INSERT INTO counted_jobs (job_id, tenant_id, type, outcome, at)
        SELECT job_id, tenant_id, type, outcome, at FROM gone
        WHERE job_id IS NOT NULL
          AND (outcome IN ('completed', 'cancelled')
               -- A part whose job counts its failed items.
               OR outcome IN ('completed_with_failures', 'nothing_done')
                  AND NOT EXISTS (SELECT FROM dead_letters d WHERE d.job_id = gone.job_id))
    ), ends AS (
        SELECT job_id, tenant_id, type, outcome, at FROM gone
        WHERE job_id IS NOT NULL AND is_end(outcome)
    ), requested AS (  -- a locked row is one that the removal of its tenant deletes
        UPDATE callbacks c SET type = e.type, outcome = e.outcome, ended_at = e.at, due_at = clock_timestamp()
        FROM (SELECT o.id, e.type, e.outcome, e.at FROM callbacks o JOIN ends e ON e.job_id = o.job_id
              WHERE o.due_at IS NULL FOR UPDATE OF o SKIP LOCKED) AS e
        WHERE c.id = e.id
    ), registered AS (
        INSERT INTO callbacks (job_id, tenant_id, url, address_id, type, outcome, ended_at, due_at)
        SELECT e.job_id, e.tenant_id, a.url, a.id, e.type, e.outcome, e.at, clock_timestamp() FROM ends e
        JOIN callback_addresses a ON coalesce(a.tenant_id, e.tenant_id) = e.tenant_id AND coalesce(a.type, e.type) = e.type
        WHERE e.at >= a.created_at
          AND EXISTS (SELECT FROM tenants t WHERE t.id = e.tenant_id AND t.state = 'active')
        ON CONFLICT DO NOTHING
    )
    SELECT count(*), max(id) INTO counted, past FROM gone;
    UPDATE outcomes_counted SET below = past - 10000 WHERE below < past - 10000;
    RETURN counted;
END $$;
