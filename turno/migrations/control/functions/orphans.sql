-- Running tickets of workers that are gone: each is to be ended by its tenant's job_rescue.
-- A dry run passes the silence that would count as death; a real one has pruned the list of workers before.
-- Tenants in turn and each one's in any order: those that cannot be rescued must not stand before the others.
CREATE OR REPLACE FUNCTION orphans(p_silent_for interval DEFAULT NULL)
RETURNS TABLE (job_id uuid, token uuid, type text, attempt integer, schema text, slug text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT t.job_id, t.token, t.type, t.attempt, n.schema, n.slug
    FROM tickets t
    JOIN tenants n ON n.id = t.tenant_id
    WHERE t.state = 'running'
      AND NOT EXISTS (SELECT FROM workers w WHERE w.id = t.worker_id
                      AND (p_silent_for IS NULL OR w.alive_at >= clock_timestamp() - p_silent_for))
    ORDER BY row_number() OVER (PARTITION BY t.tenant_id ORDER BY random())
    LIMIT 1000;
END;
