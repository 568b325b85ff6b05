-- True for one caller at a time: the lease was free or over, and is now the caller's. Never given
-- back early, so that the period of what it guards is the same however many processes ask.
CREATE OR REPLACE FUNCTION lease_take(p_name text, p_holder text, p_for interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO leases (name, holder, until) VALUES (p_name, p_holder, clock_timestamp() + p_for)
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
    WHERE leases.until <= clock_timestamp();
    RETURN FOUND;
END $$;
