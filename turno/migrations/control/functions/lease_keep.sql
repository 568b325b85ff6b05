-- Like lease_take, but the holder may go on, and says when it leaves.
CREATE OR REPLACE FUNCTION lease_keep(p_name text, p_holder text, p_for interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    -- Lost with the server, it is only taken again.
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO leases (name, holder, until) VALUES (p_name, p_holder, clock_timestamp() + p_for)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE leases.holder = p_holder OR leases.until <= clock_timestamp() OR leases.until > clock_timestamp() + p_for;
    RETURN FOUND;
END $$;
