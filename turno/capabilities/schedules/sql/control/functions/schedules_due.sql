-- The ids of the active tenants, not paused, that have a schedule to fire within p_ahead.
CREATE OR REPLACE FUNCTION schedule_tenants(p_ahead interval) RETURNS integer[]
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    RETURN ARRAY(
        SELECT n.id FROM (
            SELECT s.tenant_id FROM schedules s WHERE s.next_at <= present + p_ahead
            UNION
            -- Decided in the future: the clock was set back since, and next_at is that clock's.
            SELECT s.tenant_id FROM schedules s
            WHERE s.next_at IS NOT NULL AND s.decided_at > present + interval '2 minutes') AS due
        JOIN tenants n ON n.id = due.tenant_id
        WHERE n.state = 'active' AND n.paused_at IS NULL);
END $$;

-- A tenant's schedules to fire within p_ahead, the earliest first.
CREATE OR REPLACE FUNCTION schedules_due(p_tenant integer, p_ahead interval)
RETURNS TABLE (
    rule_id uuid, name text, cron text, every integer, zone text, spread integer, missed text, next_at timestamptz,
    restart boolean, now timestamptz, backend text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    SELECT d.schedule_id, d.name, d.cron, d.every, d.zone, d.spread, d.missed, d.next_at, d.restart, present,
           backend_now(p_tenant)
    FROM (SELECT s.*, s.decided_at > present + interval '2 minutes' AS restart FROM schedules s
          WHERE s.tenant_id = p_tenant AND s.next_at IS NOT NULL) AS d
    WHERE d.next_at <= present + p_ahead OR d.restart
    ORDER BY d.next_at, d.schedule_id;
END $$;
