-- The submitted jobs of each type: ended jobs, ended jobs that are not in the statistics yet, and open jobs.
CREATE VIEW submitted_jobs AS
SELECT type, sum(jobs)::bigint AS jobs
FROM (
    SELECT type, outcomes AS jobs FROM statistics WHERE scope = 0 AND minute = '-infinity' AND is_end(outcome)
    UNION ALL
    SELECT coalesce(h.type, '(other)'), later.jobs
    FROM (
        SELECT b.type, cardinality(b.wait_ms) AS jobs
        FROM outcome_readers r JOIN outcome_batches b ON b.position > r.position
        WHERE r.reader = 'statistics' AND is_end(b.outcome)
        UNION ALL
        SELECT type, cardinality(wait_ms) FROM outcome_batches WHERE position IS NULL AND is_end(outcome)
        UNION ALL
        SELECT type, count(*) FROM tickets GROUP BY type
    ) AS later LEFT JOIN handlers h ON h.type = later.type
) AS s
GROUP BY type;
