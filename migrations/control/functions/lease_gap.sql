-- How long nobody has had the lease: as long as nothing that it guards was done. Zero while somebody has it, or if
-- nobody ever had.
CREATE OR REPLACE FUNCTION lease_gap(p_name text) RETURNS interval
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT greatest(interval '0', clock_timestamp() - (SELECT until FROM leases WHERE name = p_name));
END;
