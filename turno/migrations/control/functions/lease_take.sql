-- True for one caller at a time: the lease was free, or over for p_after, and is now the caller's. It is never given back early,
-- so that the period of the guarded work is the same for any number of callers. With a longer p_after a caller lets the
-- others precede. A lease of more than p_for belongs to another clock: the server's was set back, or another server took over.
CREATE OR REPLACE FUNCTION lease_take(p_name text, p_holder text, p_for interval, p_after interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO leases (name, holder, until, since) VALUES (p_name, p_holder, now + p_for, now)
    ON CONFLICT (name) DO UPDATE
    SET holder = excluded.holder, until = excluded.until,
        since = CASE WHEN leases.until BETWEEN now - p_for AND now THEN leases.since ELSE now END
    WHERE leases.until <= now - p_after OR leases.until > now + p_for;
    RETURN FOUND;
END $$;
