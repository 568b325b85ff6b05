-- Count a dead letter that was inserted, closed, or deleted with its job. The trigger only adds a row: two jobs of one
-- tenant that fail alike do not wait for each other.
CREATE OR REPLACE FUNCTION count_dead_letter() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    dead_letter dead_letters := coalesce(NEW, OLD);
    opened integer := (TG_OP <> 'DELETE' AND NEW.closed_at IS NULL)::integer
                      - (TG_OP <> 'INSERT' AND OLD.closed_at IS NULL)::integer;
BEGIN
    INSERT INTO dead_letter_counts (tenant_id, type, outcome, error, day, jobs, open, items, first_at, last_at)
    VALUES (dead_letter.tenant_id, dead_letter.type, dead_letter.outcome, dead_letter.error, (dead_letter.died_at AT TIME ZONE 'UTC')::date,
            (TG_OP = 'INSERT')::integer - (TG_OP = 'DELETE')::integer,
            opened, opened * coalesce(dead_letter.items_failed, 0), dead_letter.died_at, dead_letter.died_at);
    RETURN NULL;
END $$;

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

-- The group of an error: its class and the first line of its message, redacted by the worker (`group`), without numbers, ids,
-- mail addresses and quoted texts. Two jobs with the same error have the same group, and a group has no tenant's data.
CREATE OR REPLACE FUNCTION error_group(p_error jsonb) RETURNS text LANGUAGE sql IMMUTABLE
RETURN left(left(coalesce(p_error ->> 'class', 'Error'), 100) || coalesce(': ' || nullif(btrim(
    regexp_replace(regexp_replace(left(split_part(coalesce(p_error ->> 'group', p_error ->> 'message'), E'\n', 1), 400),
        $re$'[^']*'|"[^"]*"|«[^»]*»|“[^”]*”|[^\s@]+@[^\s@]+$re$, '…', 'g'),
        '[0-9a-fA-F]{8}-[0-9a-fA-F-]{27}|[0-9]+([.,:/-][0-9]+)*', '#', 'g')), ''), ''), 200);
