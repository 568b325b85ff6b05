-- A name sorts by bytes and the index by the database's rules: compared as they are, every row of tenants was read.
CREATE OR REPLACE FUNCTION tenant_of(p_owner name) RETURNS integer
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN (SELECT id FROM tenants WHERE owner_role = p_owner::text COLLATE "default");
END $$;

-- The queue that an operator chose for a tenant's jobs; NULL: the queues of the types.
CREATE OR REPLACE FUNCTION tenant_queue(p_tenant integer) RETURNS text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN (SELECT queue FROM tenants WHERE id = p_tenant);
END $$;

-- The report login of a tenant's company, and the branches that it reads, by slug.
CREATE OR REPLACE FUNCTION company_of(p_tenant integer)
RETURNS TABLE (slug text, report_role text, login_epoch integer, branches text[], schemas text[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT c.slug, c.report_role, c.login_epoch, array_agg(b.slug ORDER BY b.slug),
           array_agg(coalesce(b.adopted_schema, b.schema) ORDER BY b.slug)
    FROM tenants n
    JOIN companies c ON c.id = n.company_id
    JOIN tenants b ON b.company_id = c.id AND b.state = 'active'
    WHERE n.id = p_tenant AND n.state = 'active'
    GROUP BY c.id;
END;

-- The schema of the tenant that each of these sessions is logged in for; NULL for any other login.
CREATE OR REPLACE FUNCTION session_schemas(p_pids integer[]) RETURNS TABLE (pid integer, schema text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT s.pid, n.schema FROM pg_stat_get_activity(NULL) AS s
    JOIN pg_roles r ON r.oid = s.usesysid
    JOIN tenants n ON n.handler_role = r.rolname::text COLLATE "default"
    WHERE s.pid = ANY (p_pids);
END;

-- The whole name of a function in a tenant's schema. The name ends with the key of the schema: the server looks a function
-- up by its name in all schemas, and with equal names a new session would read the rows of all tenants.
CREATE OR REPLACE FUNCTION tenant_function(p_schema text, p_name text) RETURNS text LANGUAGE sql IMMUTABLE
RETURN format('%I.%I', p_schema, p_name || substr(p_schema, 2));
