-- What count_outcomes adds to tenant_loads for these outcomes. The planner puts the body into the statement that calls it.
CREATE OR REPLACE FUNCTION uncounted_loads(p_from bigint, p_below bigint) RETURNS SETOF tenant_loads
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT date_bin('5 minutes', o.at, 'epoch'), o.tenant_id,
           count(*) FILTER (WHERE o.outcome IN ('completed', 'failed', 'cancelled')),
           coalesce(sum(o.run_ms), 0)::bigint,
           ARRAY[count(*) FILTER (WHERE bucket = 0), count(*) FILTER (WHERE bucket = 1), count(*) FILTER (WHERE bucket = 2),
                 count(*) FILTER (WHERE bucket = 3), count(*) FILTER (WHERE bucket = 4), count(*) FILTER (WHERE bucket = 5),
                 count(*) FILTER (WHERE bucket = 6), count(*) FILTER (WHERE bucket = 7), count(*) FILTER (WHERE bucket = 8),
                 count(*) FILTER (WHERE bucket = 9), count(*) FILTER (WHERE bucket = 10), count(*) FILTER (WHERE bucket = 11),
                 count(*) FILTER (WHERE bucket = 12), count(*) FILTER (WHERE bucket = 13), count(*) FILTER (WHERE bucket = 14),
                 count(*) FILTER (WHERE bucket = 15), count(*) FILTER (WHERE bucket = 16), count(*) FILTER (WHERE bucket = 17),
                 count(*) FILTER (WHERE bucket = 18), count(*) FILTER (WHERE bucket = 19), count(*) FILTER (WHERE bucket = 20),
                 count(*) FILTER (WHERE bucket = 21), count(*) FILTER (WHERE bucket = 22), count(*) FILTER (WHERE bucket = 23),
                 count(*) FILTER (WHERE bucket = 24)]
    FROM (
        SELECT u.tenant_id, u.at, u.outcome, u.run_ms, width_bucket(u.wait_ms - 1, outcome_bounds()) AS bucket
        FROM outcomes u WHERE u.id >= p_from AND u.id < p_below AND u.outcome NOT IN ('rescued', 'claim_lost')
    ) AS o
    GROUP BY 1, 2;
END;

-- Every load, with the outcomes that wait to be counted.
CREATE OR REPLACE FUNCTION tenant_load_sums() RETURNS SETOF tenant_loads
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT l.* FROM tenant_loads l
    UNION ALL
    SELECT u.* FROM uncounted_loads((SELECT below FROM outcomes_counted), 9223372036854775807) AS u;
END;
