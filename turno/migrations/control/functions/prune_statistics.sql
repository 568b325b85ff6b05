-- Delete the statistics of minutes older than p_minutes, and outcomes older than p_outcomes that all readers of that
-- time have read; returns the number of rows of statistics. Sums of all time stay.
CREATE OR REPLACE FUNCTION prune_statistics(p_minutes interval, p_outcomes interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM outcome_batches
    WHERE at < clock_timestamp() - p_outcomes
      AND position <= (SELECT min(position) FROM outcome_readers WHERE read_at > clock_timestamp() - p_outcomes);
    DELETE FROM statistics WHERE minute > '-infinity' AND minute < clock_timestamp() - p_minutes;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;
