-- Merge the rows of dead_letter_counts that have one tenant, type, error and day; returns how many rows there were. One
-- statement reads, adds and deletes, under a lock held by a single transaction. Rows without jobs are deleted.
CREATE OR REPLACE FUNCTION fold_dead_letter_counts() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    fresh bigint;
BEGIN
    PERFORM FROM outcome_readers WHERE reader = 'statistics' FOR UPDATE;
    WITH gone AS (
        DELETE FROM dead_letter_counts WHERE NOT folded RETURNING *
    ), added AS (
        INSERT INTO dead_letter_counts AS c
        SELECT tenant_id, type, outcome, error, day, sum(jobs), sum(open), sum(items), min(first_at), max(last_at), true
        FROM gone GROUP BY tenant_id, type, outcome, error, day
        ON CONFLICT (tenant_id, type, outcome, error, day) WHERE folded DO UPDATE
        SET jobs = c.jobs + excluded.jobs, open = c.open + excluded.open, items = c.items + excluded.items,
            first_at = least(c.first_at, excluded.first_at), last_at = greatest(c.last_at, excluded.last_at)
    )
    SELECT count(*) INTO fresh FROM gone;
    IF fresh > 0 THEN
        DELETE FROM dead_letter_counts WHERE folded AND jobs = 0;
    END IF;
    RETURN fresh;
END $$;
