-- Remove counts by minute, and which jobs they were of, that are older than this; counts of all time stay.
CREATE OR REPLACE FUNCTION prune_outcome_counts(p_minutes interval, p_jobs interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM counted_jobs WHERE at < clock_timestamp() - p_jobs;
    DELETE FROM recent_ends WHERE slot < clock_timestamp() - interval '2 hours';
    DELETE FROM tenant_loads WHERE slot < clock_timestamp() - p_minutes;
    DELETE FROM outcome_counts WHERE minute <> '-infinity' AND minute < clock_timestamp() - p_minutes;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;
