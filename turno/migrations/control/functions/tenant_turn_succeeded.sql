CREATE OR REPLACE FUNCTION tenant_turn_succeeded(p_task text, p_tenant integer) RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    DELETE FROM tenant_failures WHERE task = p_task AND tenant_id = p_tenant;
END;
