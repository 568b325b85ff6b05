-- Which backend a tenant's next job goes to: its own, or the canary's if its name falls among the percentage, or the
-- one of all. The parameters are the defaults of the environment for the run-time settings.
CREATE OR REPLACE FUNCTION backend_for(p_tenant integer, p_default text, p_canary text, p_percent integer) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
BEGIN ATOMIC
    SELECT coalesce(
        n.backend,
        CASE WHEN get_byte(digest, 0) * 256 + get_byte(digest, 1) < 655.36 * coalesce(
                      (SELECT value::integer FROM settings WHERE name = 'queue_canary_percent'), p_percent)
             THEN coalesce((SELECT value FROM settings WHERE name = 'queue_canary_backend'), p_canary) END,
        (SELECT value FROM settings WHERE name = 'queue_backend'),
        p_default)
    FROM tenants n CROSS JOIN LATERAL sha256(convert_to(n.slug, 'UTF8')) AS digest
    WHERE n.id = p_tenant;
END;
