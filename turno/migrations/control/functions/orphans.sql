-- Running tickets without a worker: their tenants' job_rescue ends each. A dry run passes the silence that would count as
-- death; other callers have pruned the list of workers before. Of each tenant some, in any order: a job that cannot be
-- rescued must not come first again.
CREATE OR REPLACE FUNCTION orphans(p_silent_for interval DEFAULT NULL)
RETURNS TABLE (job_id uuid, token uuid, type text, attempt integer, tenant_id integer, schema text, slug text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    SELECT t.job_id, t.token, t.type, t.attempt, n.id, n.schema, n.slug
    FROM tickets t
    JOIN tenants n ON n.id = t.tenant_id
    WHERE t.state = 'running'
      AND NOT EXISTS (SELECT FROM workers w WHERE w.id = t.worker_id
                      AND (p_silent_for IS NULL OR w.alive_at >= clock_timestamp() - p_silent_for))
    ORDER BY row_number() OVER (PARTITION BY t.tenant_id ORDER BY random())
    LIMIT 1000;
END;
