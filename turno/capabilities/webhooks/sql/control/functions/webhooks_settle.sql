-- With p_again resend failed deliveries at once and with a new count of attempts, otherwise discard them: deliveries of
-- p_tenant, with p_ids, of tenants of p_companies; NULL does not limit. Returns the number of deliveries.
CREATE OR REPLACE FUNCTION webhooks_settle(p_again boolean, p_tenant text, p_ids bigint[], p_companies text[]) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    settled bigint;
BEGIN
    WITH these AS (
        SELECT f.id FROM failing_webhooks f
        WHERE (p_tenant IS NULL OR f.tenant = p_tenant) AND (p_ids IS NULL OR f.id = ANY (p_ids))
          AND (p_companies IS NULL OR f.company = ANY (p_companies))
    ), again AS (
        UPDATE webhooks c SET attempts = 0, due_at = clock_timestamp(), error = NULL
        FROM these WHERE c.id = these.id AND p_again RETURNING c.tenant_id
    ), dropped AS (
        DELETE FROM webhooks c USING these WHERE c.id = these.id AND NOT p_again RETURNING c.tenant_id
    ), noted AS (
        INSERT INTO operator_acts (action, tenant_id, jobs)
        SELECT CASE WHEN p_again THEN 'webhooks resend' ELSE 'webhooks discard' END, tenant_id, count(*)
        FROM (SELECT tenant_id FROM again UNION ALL SELECT tenant_id FROM dropped) AS s GROUP BY tenant_id
    )
    SELECT (SELECT count(*) FROM again) + (SELECT count(*) FROM dropped) INTO settled;
    RETURN settled;
END $$;
