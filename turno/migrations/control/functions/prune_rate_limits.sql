-- What is earned back says as much as no row.
CREATE OR REPLACE FUNCTION prune_rate_limits(p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    pruned bigint;
BEGIN
    DELETE FROM rate_limits WHERE (tenant_id, user_id) IN (
        SELECT tenant_id, user_id FROM rate_limits
        WHERE greatest(commands, jobs, payload) < extract(epoch FROM clock_timestamp())
        LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END $$;
