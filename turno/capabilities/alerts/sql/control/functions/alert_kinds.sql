-- The kinds of the raised alerts, without their tenants.
CREATE OR REPLACE FUNCTION alert_kinds() RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT DISTINCT kind FROM alert_states ORDER BY kind;
END;
