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
