-- The pause that keeps a tenant's jobs of a type from starting: 'paused tenant' or 'paused type', NULL without a pause.
CREATE OR REPLACE FUNCTION paused(p_tenant integer, p_type text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT CASE WHEN EXISTS (SELECT FROM tenants WHERE id = p_tenant AND paused_at IS NOT NULL) THEN 'paused tenant'
                WHEN EXISTS (SELECT FROM job_types WHERE type = p_type AND paused_at IS NOT NULL) THEN 'paused type' END;
END;
