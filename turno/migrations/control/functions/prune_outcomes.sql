CREATE OR REPLACE FUNCTION prune_outcomes(p_older_than interval, p_dry_run boolean DEFAULT false) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    pruned bigint;
BEGIN
    IF p_dry_run THEN
        SELECT count(*) INTO pruned FROM outcomes WHERE at < clock_timestamp() - p_older_than;
        RETURN pruned;
    END IF;
    DELETE FROM outcomes WHERE at < clock_timestamp() - p_older_than;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;
