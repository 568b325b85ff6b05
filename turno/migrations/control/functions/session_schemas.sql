-- The schema of the tenant that each of these sessions is logged in for; NULL for any other login.
CREATE OR REPLACE FUNCTION session_schemas(p_pids integer[]) RETURNS TABLE (pid integer, schema text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT s.pid, n.schema FROM pg_stat_get_activity(NULL) AS s
    JOIN pg_roles r ON r.oid = s.usesysid
    JOIN tenants n ON n.handler_role = r.rolname::text COLLATE "default"
    WHERE s.pid = ANY (p_pids);
END;
