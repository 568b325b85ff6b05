-- Make the webhooks and mails of jobs due that ended in up to p_limit batches of outcomes, and insert the deliveries to
-- operators' addresses; returns the number of outcomes.
CREATE OR REPLACE FUNCTION webhooks_due(p_limit integer) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    outcomes bigint;
BEGIN
    WITH read AS MATERIALIZED (
        SELECT * FROM outcomes_read('webhooks', p_limit)
    ), ends AS (
        SELECT job_id, tenant_id, type, outcome, at FROM read WHERE job_id IS NOT NULL AND is_end(outcome)
    ), requested AS (  -- a locked row is one that the removal of its tenant deletes
        UPDATE webhooks c SET type = e.type, outcome = e.outcome, ended_at = e.at, due_at = clock_timestamp()
        FROM (SELECT o.id, e.type, e.outcome, e.at FROM webhooks o JOIN ends e ON e.job_id = o.job_id
              WHERE o.due_at IS NULL FOR UPDATE OF o SKIP LOCKED) AS e
        WHERE c.id = e.id
    ), registered AS (
        INSERT INTO webhooks (job_id, tenant_id, url, address_id, type, outcome, ended_at, due_at)
        SELECT e.job_id, e.tenant_id, a.url, a.id, e.type, e.outcome, e.at, clock_timestamp() FROM ends e
        JOIN webhook_addresses a ON coalesce(a.tenant_id, e.tenant_id) = e.tenant_id AND coalesce(a.type, e.type) = e.type
        WHERE e.at >= a.created_at
          AND EXISTS (SELECT FROM tenants t WHERE t.id = e.tenant_id AND t.state = 'active')
        ON CONFLICT DO NOTHING
    )
    SELECT count(*) INTO outcomes FROM read;
    RETURN outcomes;
END $$;
