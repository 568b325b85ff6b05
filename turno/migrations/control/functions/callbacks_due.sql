-- Take call-backs whose jobs have ended, at most p_each of a tenant's, so that one tenant's receivers hold up no other's.
-- Who takes one has until its pause is over to say that it was delivered: then it is due again, for whoever asks next.
CREATE OR REPLACE FUNCTION callbacks_due(p_pauses interval[], p_each integer, p_limit integer)
RETURNS TABLE (id bigint, job_id uuid, slug text, schema text, url text, language text, address_id integer,
               attempts integer)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY
    WITH taken AS (
        SELECT due.id, t.slug, t.schema
        FROM tenants t CROSS JOIN LATERAL (
            SELECT c.id, c.due_at FROM callbacks c
            WHERE c.tenant_id = t.id AND c.due_at <= clock_timestamp()
              AND NOT EXISTS (SELECT FROM tickets k WHERE k.job_id = c.job_id)
            ORDER BY c.due_at LIMIT p_each FOR UPDATE OF c SKIP LOCKED) AS due
        WHERE t.state = 'active' AND t.id IN (SELECT c.tenant_id FROM callbacks c WHERE c.due_at <= clock_timestamp())
        ORDER BY due.due_at LIMIT p_limit
    )
    UPDATE callbacks c
    SET attempts = c.attempts + 1,
        due_at = clock_timestamp() + p_pauses[least(c.attempts + 1, cardinality(p_pauses))]
    FROM taken WHERE c.id = taken.id
    RETURNING c.id, c.job_id, taken.slug, taken.schema, c.url, c.language, c.address_id, c.attempts;
END $$;
