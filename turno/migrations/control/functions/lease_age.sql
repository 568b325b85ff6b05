-- For how long holders have followed one another without a gap; null if nobody ever had the lease.
CREATE OR REPLACE FUNCTION lease_age(p_name text) RETURNS interval
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT clock_timestamp() - since FROM leases WHERE name = p_name;
END;
