-- The rows that count_outcomes adds to tenant_loads for these outcomes. The planner inlines the body into the calling statement.
CREATE OR REPLACE FUNCTION uncounted_loads(p_from bigint, p_below bigint) RETURNS SETOF tenant_loads
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT g.slot, g.tenant_id, sum(g.ended)::bigint, sum(g.run_ms)::bigint, g.type, sum(g.completed)::bigint,
           sum(g.failed)::bigint, sum(g.cancelled)::bigint, sum(g.retried)::bigint, sum(g.attempts)::bigint,
           sum(g.completed_with_failures)::bigint, sum(g.nothing_done)::bigint,
           array_agg(g.bucket), array_agg(g.waits), array_agg(g.wait_ms)
    FROM (
        SELECT coalesce(o.slot, o.minute) AS slot, coalesce(o.tenant_id, -o.company_id, 0) AS tenant_id,
               coalesce(o.known, '') AS type, o.bucket, count(*) AS waits, sum(o.wait_ms)::bigint AS wait_ms,
               count(*) FILTER (WHERE is_end(o.outcome)) AS ended, coalesce(sum(o.run_ms), 0) AS run_ms,
               count(o.run_ms) AS attempts, count(*) FILTER (WHERE o.outcome = 'completed') AS completed,
               count(*) FILTER (WHERE o.outcome = 'failed') AS failed,
               count(*) FILTER (WHERE o.outcome = 'cancelled') AS cancelled,
               count(*) FILTER (WHERE o.outcome = 'retried') AS retried,
               count(*) FILTER (WHERE o.outcome = 'completed_with_failures') AS completed_with_failures,
               count(*) FILTER (WHERE o.outcome = 'nothing_done') AS nothing_done
        FROM (
            SELECT u.tenant_id, n.company_id, date_trunc('minute', u.at) AS minute, date_bin('5 minutes', u.at, 'epoch') AS slot,
                   coalesce(h.type, '(other)') AS known, u.outcome, u.run_ms, u.wait_ms,
                   width_bucket(u.wait_ms - 1, outcome_bounds())::smallint AS bucket
            FROM outcomes u JOIN tenants n ON n.id = u.tenant_id LEFT JOIN handlers h ON h.type = u.type
            WHERE u.id >= p_from AND u.id < p_below AND u.outcome NOT IN ('rescued', 'claim_lost')
        ) AS o
        GROUP BY GROUPING SETS ((o.slot, o.tenant_id, o.bucket), (o.slot, o.company_id, o.known, o.bucket),
                                (o.minute, o.known, o.bucket))
    ) AS g
    GROUP BY g.slot, g.tenant_id, g.type;
END;

-- Every load, with the outcomes that wait to be counted.
CREATE OR REPLACE FUNCTION tenant_load_sums() RETURNS SETOF tenant_loads
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT l.* FROM tenant_loads l
    UNION ALL
    SELECT u.* FROM outcomes_counted k CROSS JOIN LATERAL uncounted_loads(k.below, 9223372036854775807) AS u;
END;

-- The loads of some tenants or companies (negative), or of all (0), from this moment on. p_slot is what their slots last:
-- each is one descent of the key, however many others there are.
CREATE OR REPLACE FUNCTION loads_of(p_of integer[], p_since timestamptz, p_slot interval) RETURNS SETOF tenant_loads
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT l.* FROM generate_series(p_since, now() + interval '5 minutes', p_slot) AS s (slot) CROSS JOIN unnest(p_of) AS o (id)
    JOIN tenant_loads l ON l.slot = s.slot AND l.tenant_id = o.id
    UNION ALL
    SELECT u.* FROM outcomes_counted k CROSS JOIN LATERAL uncounted_loads(k.below, 9223372036854775807) AS u
    WHERE u.slot >= p_since AND u.tenant_id = ANY (p_of);
END;
