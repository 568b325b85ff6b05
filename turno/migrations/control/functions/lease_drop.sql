CREATE OR REPLACE FUNCTION lease_drop(p_name text, p_holder text) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    DELETE FROM leases WHERE name = p_name AND holder = p_holder;
END;
