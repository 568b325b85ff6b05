-- The tenant's ticket that precedes this ticket, among tickets of these types that are neither paused nor at their cap:
-- a higher priority, or with p_oldest an earlier time; any ticket precedes a ticket of another type.
CREATE OR REPLACE FUNCTION goes_before(p_named tickets, p_oldest boolean, p_types text[], p_versions smallint[])
RETURNS uuid LANGUAGE plpgsql AS $$
DECLARE
    types text[];
    versions smallint[];
    last_band integer := 2;
    older_than timestamptz := 'infinity';
BEGIN
    SELECT array_agg(k.type), array_agg(k.version) INTO types, versions
    FROM unnest(p_types, p_versions) AS k (type, version)
    WHERE NOT EXISTS (SELECT FROM job_types j WHERE j.type = k.type AND (
              j.paused_at IS NOT NULL
              OR j.cap <= (SELECT count(*) FROM tickets c WHERE c.state = 'running' AND c.type = k.type)));
    IF EXISTS (SELECT FROM unnest(types, versions) AS k (type, version)
               WHERE k.type = p_named.type AND k.version = p_named.version) THEN
        IF p_oldest THEN
            older_than := p_named.run_at;
        ELSE
            last_band := p_named.priority - 1;
        END IF;
    END IF;
    RETURN (
        SELECT candidate.job_id
        FROM (
            SELECT first.* FROM unnest(types, versions) AS k (type, version)
            CROSS JOIN generate_series(0, last_band) AS band
            CROSS JOIN LATERAL (
                SELECT t.job_id, t.priority, t.run_at FROM tickets t
                WHERE t.state = 'ready' AND t.backend = 'rabbitmq' AND t.published_at IS NULL
                  AND t.type = k.type AND t.version = k.version
                  AND t.tenant_id = p_named.tenant_id AND t.priority = band
                ORDER BY t.run_at LIMIT 1) AS first
            UNION ALL
            SELECT t.job_id, t.priority, t.run_at FROM tickets t
            JOIN unnest(types, versions) AS k (type, version) USING (type, version)
            WHERE t.state = 'ready' AND t.backend = 'rabbitmq' AND t.published_at IS NOT NULL
              AND t.tenant_id = p_named.tenant_id AND t.priority <= last_band
        ) AS candidate
        WHERE candidate.run_at < older_than
        ORDER BY CASE WHEN p_oldest THEN 0 ELSE candidate.priority END, candidate.run_at LIMIT 1);
END $$;

-- Claim the ticket of a message, or the ticket of the same tenant that precedes it: the broker decides the order of tenants,
-- the database the order of a tenant's tickets. The highest priority precedes, in an eighth of the claims the oldest ticket,
-- so that no ticket starves. The ticket of the message is then published again.
-- A message proves nothing: a message with a schema of another tenant claims no ticket.
CREATE OR REPLACE FUNCTION claim_message(p_worker uuid, p_job uuid, p_schema text, p_types text[], p_versions smallint[])
RETURNS SETOF claimed
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    named tickets;
    better uuid;
BEGIN
    SELECT t.* INTO named FROM tickets t JOIN tenants n ON n.id = t.tenant_id WHERE t.job_id = p_job AND n.schema = p_schema;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF named.state = 'ready' THEN
        better := goes_before(named, random() < 0.125, p_types, p_versions);
    END IF;
    IF better IS NOT NULL THEN
        RETURN QUERY SELECT * FROM claim_job(p_worker, better, p_types, p_versions);
        IF FOUND THEN
            UPDATE tickets t SET published_at = NULL
            WHERE t.job_id = (SELECT n.job_id FROM tickets n WHERE n.job_id = p_job AND n.worker_id IS NULL
                              FOR NO KEY UPDATE SKIP LOCKED);
            RETURN;
        END IF;
    END IF;
    RETURN QUERY SELECT * FROM claim_job(p_worker, p_job, p_types, p_versions);
END $$;
