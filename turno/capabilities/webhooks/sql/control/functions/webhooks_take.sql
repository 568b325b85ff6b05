-- Take due webhooks and mails for p_lease, at most p_each of a tenant and none of the tenants p_busy. After the lease a
-- delivery that webhook_tried did not record is due again. The first delivery of each tenant precedes the second of
-- any; among tenants the order is random, so that unresponsive receivers cannot always come first.
CREATE OR REPLACE FUNCTION webhooks_take(p_lease interval, p_each integer, p_limit integer, p_busy integer[])
RETURNS TABLE (id bigint, job_id uuid, tenant_id integer, slug text, url text, language text, address_id integer,
               type text, outcome text, ended_at timestamptz, attempts integer)
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT SET enable_seqscan = off
BEGIN ATOMIC
    WITH taken AS (
        SELECT due.id, t.slug
        FROM tenants t CROSS JOIN LATERAL (
            SELECT d.id, row_number() OVER (ORDER BY d.due_at) AS position
            FROM (SELECT c.id, c.due_at FROM webhooks c
                  WHERE c.tenant_id = t.id AND c.due_at < 'infinity' AND c.due_at <= clock_timestamp()
                  ORDER BY c.due_at LIMIT p_each FOR UPDATE SKIP LOCKED) AS d) AS due
        WHERE t.state = 'active' AND t.id <> ALL (p_busy)
        ORDER BY due.position, random() LIMIT p_limit
    )
    UPDATE webhooks c SET due_at = clock_timestamp() + p_lease
    FROM taken WHERE c.id = taken.id
    RETURNING c.id, c.job_id, c.tenant_id, taken.slug, c.url, c.language, c.address_id, c.type, c.outcome, c.ended_at,
              c.attempts;
END;
