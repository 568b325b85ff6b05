-- The tenant's copies by name, without payloads, with the last moment that has a job.
CREATE OR REPLACE FUNCTION template_copies()
RETURNS TABLE (
    name text, type text, queue text, cron text, every integer, zone text, spread integer, missed text,
    template_paused_at timestamptz, paused_at timestamptz, paused_by text, next_at timestamptz, missed_runs bigint,
    problem text, last_at timestamptz, last_job_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT c.name, c.type::text, c.queue::text, c.cron, c.every, c.zone, c.spread, c.missed, t.paused_at, c.paused_at,
           c.paused_by, CASE WHEN c.decided_at IS NOT NULL THEN c.next_at END, c.missed_runs, c.problem, r.moment, r.job_id
    FROM turno.schedules c JOIN turno.schedule_templates t ON t.id = c.template_id
    LEFT JOIN LATERAL (
        SELECT l.moment, l.job_id FROM turno.template_runs l
        WHERE l.tenant_id = c.tenant_id AND l.template_id = c.template_id ORDER BY l.moment DESC LIMIT 1) AS r ON true
    ORDER BY c.name COLLATE "C";
END $$;

-- Pause the tenant's copy of a template, or resume the copy: earlier moments do not count as missed. Returns changed, same
-- (it is so already), or unknown.
CREATE OR REPLACE FUNCTION template_copy_switch(p_name text, p_pause boolean, p_user text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
DECLARE
    own record;
BEGIN
    SELECT c.schedule_id, c.paused_at IS NOT NULL AS paused, t.paused_at IS NOT NULL AS all_paused INTO own
    FROM turno.schedules c JOIN turno.schedule_templates t ON t.id = c.template_id
    WHERE t.name = p_name FOR UPDATE OF c;
    IF NOT FOUND THEN
        RETURN 'unknown';
    ELSIF own.paused = p_pause THEN
        RETURN 'same';
    END IF;
    UPDATE turno.schedules c
    SET paused_at = CASE WHEN p_pause THEN clock_timestamp() END, paused_by = CASE WHEN p_pause THEN p_user END,
        next_at = CASE WHEN NOT (p_pause OR own.all_paused) THEN clock_timestamp() END, decided_at = NULL, problem = NULL
    WHERE c.schedule_id = own.schedule_id;
    RETURN 'changed';
END $$;
