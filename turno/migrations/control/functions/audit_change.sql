-- One row of the audit for each row that an operator's statement changed, with what of it is new. Who it was is said by the
-- local setting turno.actor; without it, as by hand in psql, it is the login.
CREATE OR REPLACE FUNCTION audit_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    before jsonb := CASE TG_OP WHEN 'INSERT' THEN '{}' WHEN 'DELETE' THEN jsonb_strip_nulls(to_jsonb(OLD)) ELSE to_jsonb(OLD) END;
    after jsonb := CASE TG_OP WHEN 'INSERT' THEN jsonb_strip_nulls(to_jsonb(NEW)) WHEN 'DELETE' THEN '{}' ELSE to_jsonb(NEW) END;
    row jsonb := CASE WHEN TG_OP = 'DELETE' THEN before ELSE after END;
    changed jsonb;
BEGIN
    SELECT coalesce(jsonb_object_agg(key, after -> key), '{}') INTO changed
    FROM (SELECT jsonb_object_keys(before || after) AS key) AS k
    WHERE after -> key IS DISTINCT FROM before -> key AND key NOT IN ('updated_at', 'alive_at', 'type', 'name');
    IF changed <> '{}' THEN
        INSERT INTO operator_audit (actor, action, tenant_id, subject, detail)
        VALUES (coalesce(nullif(current_setting('turno.actor', true), ''), session_user),
                CASE TG_TABLE_NAME WHEN 'tenants' THEN 'tenant set' WHEN 'job_types' THEN 'type set'
                                   WHEN 'settings' THEN 'setting' ELSE 'worker' END,
                CASE TG_TABLE_NAME WHEN 'tenants' THEN (row ->> 'id')::integer END,
                coalesce(row ->> 'slug', row ->> 'type', row ->> 'name', row ->> 'host' || ':' || (row ->> 'pid')), changed);
    END IF;
    RETURN NULL;
END $$;
