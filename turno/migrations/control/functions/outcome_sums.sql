-- What count_outcomes adds for these outcomes. The planner puts the body into the statement that calls it.
CREATE OR REPLACE FUNCTION uncounted_outcomes(p_from bigint, p_below bigint) RETURNS SETOF outcome_counts
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT coalesce(o.tenant_id, 0), coalesce(o.minute, '-infinity'), coalesce(o.type, o.known), o.outcome,
           coalesce(o.wait_bucket, -1)::smallint, coalesce(o.run_bucket, -1)::smallint,
           count(*), count(o.run_ms), coalesce(sum(o.wait_ms), 0)::bigint, coalesce(sum(o.run_ms), 0)::bigint,
           coalesce(sum(o.items_done), 0)::bigint, coalesce(sum(o.items_failed), 0)::bigint
    FROM (
        SELECT u.tenant_id, date_trunc('minute', u.at) AS minute, u.type, coalesce(h.type, '(other)') AS known, u.outcome,
               width_bucket(u.wait_ms - 1, outcome_bounds()) AS wait_bucket,
               coalesce(width_bucket(u.run_ms - 1, outcome_bounds()), -1) AS run_bucket, u.wait_ms, u.run_ms,
               u.items_done, u.items_failed
        FROM outcomes u LEFT JOIN handlers h ON h.type = u.type
        WHERE u.id >= p_from AND u.id < p_below
    ) AS o
    GROUP BY GROUPING SETS (
        (o.tenant_id, o.minute, o.type, o.outcome, o.wait_bucket),
        (o.tenant_id, o.known, o.outcome),
        (o.known, o.outcome, o.wait_bucket, o.run_bucket)
    );
END;

-- Every count, with the outcomes that wait to be counted: exact at any moment, whenever they are counted.
CREATE OR REPLACE FUNCTION outcome_sums() RETURNS SETOF outcome_counts
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT c.* FROM outcome_counts c
    UNION ALL
    SELECT u.* FROM outcomes_counted k CROSS JOIN LATERAL uncounted_outcomes(k.below, 9223372036854775807) AS u;
END;
