-- The backend of a tenant's next job: its own, or the canary's if the digest of its slug is within the percentage, or
-- that of all tenants, or p_default, which is the setting QUEUE_BACKEND.
CREATE OR REPLACE FUNCTION backend_for(p_tenant integer, p_default text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT coalesce(
        n.backend,
        CASE WHEN get_byte(digest, 0) * 256 + get_byte(digest, 1) < 655.36 *
                      (SELECT value::integer FROM settings WHERE name = 'queue_canary_percent')
             THEN (SELECT value FROM settings WHERE name = 'queue_canary_backend') END,
        (SELECT value FROM settings WHERE name = 'queue_backend'),
        p_default)
    FROM tenants n CROSS JOIN LATERAL sha256(convert_to(n.slug, 'UTF8')) AS digest
    WHERE n.id = p_tenant;
END;
