-- The ids of the active tenants, not paused, that have a schedule to fire within p_ahead, or a template to fire or to decide.
CREATE OR REPLACE FUNCTION schedule_tenants(p_ahead interval) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    RETURN ARRAY(
        SELECT n.id FROM (
            SELECT s.tenant_id FROM schedules s
            WHERE s.next_at <= present + p_ahead AND (s.template_id IS NULL OR s.next_at <= present)
            UNION
            -- Decided in the future: the clock was set back since, and next_at is that clock's.
            SELECT s.tenant_id FROM schedules s
            WHERE s.next_at IS NOT NULL AND s.decided_at > present + interval '2 minutes') AS due
        JOIN tenants n ON n.id = due.tenant_id
        WHERE n.state = 'active' AND n.paused_at IS NULL);
END $$;

-- A tenant's schedules to fire within p_ahead, and its copies of templates to fire or to decide, the earliest first. A copy
-- is not fired ahead of its moment, so that a pause or a change of the template has no job to take back.
CREATE OR REPLACE FUNCTION schedules_due(p_tenant integer, p_ahead interval)
RETURNS TABLE (
    template boolean, rule_id uuid, name text, cron text, every integer, zone text, spread integer, missed text,
    next_at timestamptz, restart boolean, now timestamptz, backend text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT s.template_id IS NOT NULL, s.schedule_id, s.name, s.cron, s.every, s.zone, s.spread, s.missed, s.next_at,
           d.restart, present, backend_for(p_tenant, NULL)
    FROM schedules s
    CROSS JOIN LATERAL (SELECT s.decided_at IS NULL OR s.decided_at > present + interval '2 minutes' AS restart) AS d
    WHERE s.tenant_id = p_tenant AND s.next_at IS NOT NULL
      AND (d.restart OR s.next_at <= present + CASE WHEN s.template_id IS NULL THEN p_ahead ELSE interval '0' END)
    ORDER BY s.next_at, s.schedule_id;
END $$;
