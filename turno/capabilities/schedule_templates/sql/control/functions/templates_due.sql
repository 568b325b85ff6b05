-- The ids of the active tenants, not paused, that have a copy to fire or to decide.
CREATE OR REPLACE FUNCTION template_tenants(p_ahead interval) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    horizon timestamptz := clock_timestamp() + p_ahead;
BEGIN
    RETURN ARRAY(
        SELECT n.id FROM (SELECT DISTINCT c.tenant_id FROM template_copies c WHERE c.next_at <= horizon) AS due
        JOIN tenants n ON n.id = due.tenant_id
        WHERE n.state = 'active' AND n.paused_at IS NULL);
END $$;

-- A tenant's copies to fire or to decide, the earliest first.
CREATE OR REPLACE FUNCTION templates_due(p_tenant integer, p_ahead interval)
RETURNS TABLE (
    rule_id uuid, name text, cron text, every integer, zone text, spread integer, missed text, next_at timestamptz,
    restart boolean, now timestamptz, backend text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT t.id, t.name, t.cron, t.every, coalesce(z.zone, t.zone), t.spread, t.missed, c.next_at, c.decided_at IS NULL,
           present, backend_now(p_tenant)
    FROM template_copies c JOIN schedule_templates t ON t.id = c.template_id
    LEFT JOIN template_zones z ON z.tenant_id = c.tenant_id
    WHERE c.tenant_id = p_tenant AND c.next_at <= present + p_ahead
    ORDER BY c.next_at, t.id;
END $$;
