-- Add up to p_limit outcomes to the counts and remove them; returns how many. One statement reads, adds and removes, so
-- that what commits meanwhile is counted the next time; and the lock lets one at a time do so.
-- An end that operators have told to an address gets its call-back here.
-- It begins a little below what was counted last, as ids may commit out of order. p_all: at the lowest id there is.
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
            wait_ms = c.wait_ms + excluded.wait_ms, run_ms = c.run_ms + excluded.run_ms
    ), loaded AS (
        INSERT INTO tenant_loads AS l SELECT * FROM uncounted_loads(first, past) ORDER BY slot, tenant_id, type
        ON CONFLICT (slot, tenant_id, type) DO UPDATE
        SET ended = l.ended + excluded.ended, run_ms = l.run_ms + excluded.run_ms,
            completed = l.completed + excluded.completed, failed = l.failed + excluded.failed,
            cancelled = l.cancelled + excluded.cancelled, retried = l.retried + excluded.retried,
            attempts = l.attempts + excluded.attempts,
            waits = ARRAY(SELECT a + b FROM unnest(l.waits, excluded.waits) WITH ORDINALITY AS w (a, b, n) ORDER BY n)
    ), ends AS (
        INSERT INTO recent_ends AS e SELECT * FROM uncounted_ends(first, past) ORDER BY slot, tenant_id, type
        ON CONFLICT (slot, tenant_id, type) DO UPDATE SET ended = e.ended + excluded.ended, failed = e.failed + excluded.failed
    ), gone AS (
        DELETE FROM outcomes WHERE id >= first AND id < past RETURNING id, job_id, tenant_id, type, outcome, at
    ), kept AS (
        INSERT INTO counted_jobs (job_id, tenant_id, type, outcome, at)
        SELECT job_id, tenant_id, type, outcome, at FROM gone
        WHERE job_id IS NOT NULL AND outcome IN ('completed', 'cancelled')
    ), told AS (
        INSERT INTO callbacks (job_id, tenant_id, url, address_id)
        SELECT g.job_id, g.tenant_id, a.url, a.id FROM gone g
        JOIN callback_addresses a ON coalesce(a.tenant_id, g.tenant_id) = g.tenant_id AND coalesce(a.type, g.type) = g.type
        WHERE g.job_id IS NOT NULL AND g.outcome IN ('completed', 'failed', 'cancelled') AND g.at >= a.created_at
          AND EXISTS (SELECT FROM tenants t WHERE t.id = g.tenant_id AND t.state = 'active')
        ON CONFLICT DO NOTHING
    )
    SELECT count(*), max(id) INTO counted, past FROM gone;
    UPDATE outcomes_counted SET below = past - 10000 WHERE below < past - 10000;
    RETURN counted;
END $$;
