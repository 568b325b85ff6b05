-- The worker that a ticket lacks to be claimed: a living worker of its backend ('worker'), of its type ('type'), of its
-- version ('version') or of its queue ('queue'). NULL if a worker can claim the ticket.
CREATE OR REPLACE FUNCTION lacking(p_backend text, p_queue text, p_type text, p_version smallint) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT CASE WHEN count(*) = 0 THEN CASE WHEN p_backend <> 'exec' THEN 'worker' END
                WHEN NOT bool_or(p_type = ANY (s.types)) THEN 'type'
                WHEN NOT bool_or(known) THEN 'version'
                WHEN NOT bool_or(known AND coalesce(p_queue = ANY (s.queues), true)) THEN 'queue' END
    FROM serving s CROSS JOIN LATERAL (
        SELECT (p_type, p_version) IN (SELECT * FROM unnest(s.types, s.versions)) AS known) AS k
    WHERE s.backend = p_backend;
END;

-- The pause that keeps a tenant's jobs of a type from starting: 'paused tenant' or 'paused type', NULL without a pause.
CREATE OR REPLACE FUNCTION paused(p_tenant integer, p_type text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT CASE WHEN EXISTS (SELECT FROM tenants WHERE id = p_tenant AND paused_at IS NOT NULL) THEN 'paused tenant'
                WHEN EXISTS (SELECT FROM job_types WHERE type = p_type AND paused_at IS NOT NULL) THEN 'paused type' END;
END;
