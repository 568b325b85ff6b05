-- The tenant's copies by name, without payloads, with the last moment that has a job.
CREATE OR REPLACE FUNCTION template_copies()
RETURNS TABLE (
    name text, type text, queue text, cron text, every integer, zone text, spread integer, missed text,
    template_paused_at timestamptz, paused_at timestamptz, paused_by text, next_at timestamptz, missed_runs integer,
    problem text, last_at timestamptz, last_job_id uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off AS $$
BEGIN
    RETURN QUERY
    SELECT t.name, t.type::text, t.queue::text, t.cron, t.every, coalesce(z.zone, t.zone), t.spread, t.missed, t.paused_at,
           c.paused_at, c.paused_by, CASE WHEN isfinite(c.next_at) AND c.decided_at IS NOT NULL THEN c.next_at END,
           c.missed_runs, c.problem, r.moment, r.job_id
    FROM turno.template_copies c JOIN turno.schedule_templates t ON t.id = c.template_id
    LEFT JOIN turno.template_zones z ON z.tenant_id = c.tenant_id
    LEFT JOIN LATERAL (
        SELECT l.moment, l.job_id FROM turno.template_runs l
        WHERE l.tenant_id = c.tenant_id AND l.template_id = c.template_id ORDER BY l.moment DESC LIMIT 1) AS r ON true
    ORDER BY t.name COLLATE "C";
END $$;
