-- Record the end of a tenant's turn: after an error the next turn comes after p_first, doubled with each failure up to
-- p_longest; without an error the record of earlier failures is deleted.
CREATE OR REPLACE FUNCTION tenant_turn_end(
    p_task text, p_tenant integer, p_error text, p_first interval, p_longest interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    DELETE FROM tenant_failures WHERE p_error IS NULL AND task = p_task AND tenant_id = p_tenant;
    INSERT INTO tenant_failures AS f (task, tenant_id, failures, error, since, retry_at)
    SELECT p_task, n.id, 1, left(p_error, 1000), present, present + least(p_first, p_longest)
    FROM tenants n WHERE p_error IS NOT NULL AND n.id = p_tenant AND n.state = 'active'
    ON CONFLICT (task, tenant_id) DO UPDATE
    SET failures = f.failures + 1, error = excluded.error,
        retry_at = present + least(p_first * 2 ^ least(f.failures, 20), p_longest);
END $$;
