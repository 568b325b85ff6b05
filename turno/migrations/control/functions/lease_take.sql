-- True for one caller at a time: the lease was free or over, and is now the caller's. Never given
-- back early, so that the period of what it guards is the same however many processes ask.
-- A lease that lasts for longer than was asked for is another clock's: the server's was set back, or another took over.
CREATE OR REPLACE FUNCTION lease_take(p_name text, p_holder text, p_for interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    now timestamptz := clock_timestamp();
BEGIN
    INSERT INTO leases (name, holder, until, since) VALUES (p_name, p_holder, now + p_for, now)
    ON CONFLICT (name) DO UPDATE
    SET holder = excluded.holder, until = excluded.until,
        since = CASE WHEN leases.until BETWEEN now - p_for AND now THEN leases.since ELSE now END
    WHERE leases.until <= now OR leases.until > now + p_for;
    RETURN FOUND;
END $$;
