-- Schedules of active tenants whose next moment comes within p_ahead, the earliest first, behind the one that the caller
-- saw last; with what a job of their type is stamped with, if somebody knows the type. A paused tenant's wait.
-- One whose next moment was decided at a time that is still to come is among them: the clock was set back since.
CREATE OR REPLACE FUNCTION schedules_due(p_ahead interval, p_limit integer, p_after_at timestamptz, p_after_id uuid)
RETURNS TABLE (
    schedule_id uuid, slug text, schema text, name text, type text, cron text, every integer, zone text, spread integer,
    missed text, next_at timestamptz, set_back boolean, now timestamptz, version smallint, queue text,
    max_attempts integer, backend text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    present timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY
    WITH due AS (
        (SELECT s.* FROM schedules s
         WHERE s.next_at <= present + p_ahead AND (s.next_at, s.schedule_id) > (p_after_at, p_after_id)
         ORDER BY s.next_at, s.schedule_id LIMIT p_limit)
        UNION
        (SELECT s.* FROM schedules s
         WHERE s.next_at IS NOT NULL AND s.decided_at > present + interval '2 minutes'
           AND (s.next_at, s.schedule_id) > (p_after_at, p_after_id)
         ORDER BY s.decided_at DESC LIMIT p_limit)  -- in the order of its index: by next_at, all would be read
    )
    SELECT d.schedule_id, n.slug, n.schema, d.name, d.type::text, d.cron, d.every, d.zone, d.spread, d.missed, d.next_at,
           d.decided_at > present + interval '2 minutes', present, h.version, h.queue::text, h.max_attempts,
           backend_now(n.id)
    FROM due d JOIN tenants n ON n.id = d.tenant_id LEFT JOIN handlers h ON h.type = d.type
    WHERE n.state = 'active' AND n.paused_at IS NULL
    ORDER BY d.next_at, d.schedule_id LIMIT p_limit;
END $$;
