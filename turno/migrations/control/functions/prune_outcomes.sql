CREATE OR REPLACE FUNCTION prune_outcomes(p_older_than interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM outcomes WHERE at < clock_timestamp() - p_older_than;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;
