-- Count a dead letter that was inserted, closed, or deleted with its job. The trigger only adds a row: two jobs of one
-- tenant that fail alike do not wait for each other.
CREATE OR REPLACE FUNCTION count_dead_letter() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    one dead_letters := coalesce(NEW, OLD);
    opened integer := (TG_OP <> 'DELETE' AND NEW.closed_at IS NULL)::integer
                      - (TG_OP <> 'INSERT' AND OLD.closed_at IS NULL)::integer;
BEGIN
    INSERT INTO dead_letter_counts (tenant_id, type, outcome, error, day, jobs, open, items, first_at, last_at)
    VALUES (one.tenant_id, one.type, one.outcome, one.error, (one.died_at AT TIME ZONE 'UTC')::date,
            (TG_OP = 'INSERT')::integer - (TG_OP = 'DELETE')::integer,
            opened, opened * coalesce(one.items_failed, 0), one.died_at, one.died_at);
    RETURN NULL;
END $$;
