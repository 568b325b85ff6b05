-- Delete rows of unused limits, which equal absent rows.
CREATE OR REPLACE FUNCTION prune_rate_limits(p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM rate_limits WHERE (tenant_id, name, subject) IN (
        SELECT tenant_id, name, subject FROM rate_limits WHERE empty_at < extract(epoch FROM clock_timestamp())
        LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;
