-- What count_outcomes adds to tenant_loads for these outcomes. The planner puts the body into the statement that calls it.
CREATE OR REPLACE FUNCTION uncounted_loads(p_from bigint, p_below bigint) RETURNS SETOF tenant_loads
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(o.slot, o.minute), coalesce(o.tenant_id, -o.company_id, 0),
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
                 count(*) FILTER (WHERE bucket = 24)],
           coalesce(o.known, ''),
           count(*) FILTER (WHERE o.outcome = 'completed'), count(*) FILTER (WHERE o.outcome = 'failed'),
           count(*) FILTER (WHERE o.outcome = 'cancelled'), count(*) FILTER (WHERE o.outcome = 'retried'), count(o.run_ms)
    FROM (
        SELECT u.tenant_id, n.company_id, date_trunc('minute', u.at) AS minute, date_bin('5 minutes', u.at, 'epoch') AS slot,
               coalesce(h.type, '(other)') AS known, u.outcome, u.run_ms,
               width_bucket(u.wait_ms - 1, outcome_bounds()) AS bucket
        FROM outcomes u JOIN tenants n ON n.id = u.tenant_id LEFT JOIN handlers h ON h.type = u.type
        WHERE u.id >= p_from AND u.id < p_below AND u.outcome NOT IN ('rescued', 'claim_lost')
    ) AS o
    GROUP BY GROUPING SETS ((o.slot, o.tenant_id), (o.slot, o.company_id, o.known), (o.minute, o.known));
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
