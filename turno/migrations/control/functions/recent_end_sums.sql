-- What count_outcomes adds to recent_ends for these outcomes. The planner puts the body into the statement that calls it.
CREATE OR REPLACE FUNCTION uncounted_ends(p_from bigint, p_below bigint) RETURNS SETOF recent_ends
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT date_bin('5 minutes', u.at, 'epoch'), u.tenant_id, u.type, count(*), count(*) FILTER (WHERE u.outcome = 'failed'),
           coalesce(sum(u.items_done), 0)::bigint, coalesce(sum(u.items_failed), 0)::bigint
    FROM outcomes u
    WHERE u.id >= p_from AND u.id < p_below AND is_end(u.outcome)
    GROUP BY 1, 2, 3;
END;

-- Every end of the last hours, with the outcomes that wait to be counted.
CREATE OR REPLACE FUNCTION recent_end_sums() RETURNS SETOF recent_ends
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT e.* FROM recent_ends e
    UNION ALL
    SELECT u.* FROM outcomes_counted k CROSS JOIN LATERAL uncounted_ends(k.below, 9223372036854775807) AS u;
END;
