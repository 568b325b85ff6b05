-- Take a lease for p_for; false while another holder has it. A lease ends by its time, so that the period of the
-- guarded work is the same for any number of callers. With p_after the caller takes it only if it ended that long ago;
-- with p_renew its holder may take it again before its end, and with a p_for of zero end it. A lease of more than p_for
-- belongs to another clock: the server's was set back, or another server took over.
CREATE OR REPLACE FUNCTION lease_take(p_name text, p_holder text, p_for interval, p_after interval, p_renew boolean)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now timestamptz := clock_timestamp();
BEGIN
    -- A lease that the server loses is taken again.
    PERFORM set_config('synchronous_commit', 'off', true);
    INSERT INTO leases (name, holder, until, since) VALUES (p_name, p_holder, now + p_for, now)
    ON CONFLICT (name) DO UPDATE
    SET holder = excluded.holder, until = excluded.until,
        since = CASE WHEN leases.until BETWEEN now - p_for AND now + p_for THEN leases.since ELSE now END
    WHERE leases.until <= now - p_after OR leases.until > now + p_for AND p_for > '0' OR p_renew AND leases.holder = p_holder;
    RETURN FOUND;
END $$;
