-- Tenants as a worker's passes need them.
CREATE OR REPLACE FUNCTION active_tenants() RETURNS TABLE (slug text, schema text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT slug, schema FROM tenants WHERE state = 'active' ORDER BY id;
END;
