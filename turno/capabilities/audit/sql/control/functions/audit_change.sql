-- One act for each row that an operator's statement changed, with the new values.
CREATE OR REPLACE FUNCTION audit_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    before jsonb := CASE TG_OP WHEN 'INSERT' THEN '{}' WHEN 'DELETE' THEN jsonb_strip_nulls(to_jsonb(OLD)) ELSE to_jsonb(OLD) END;
    after jsonb := CASE TG_OP WHEN 'INSERT' THEN jsonb_strip_nulls(to_jsonb(NEW)) WHEN 'DELETE' THEN '{}' ELSE to_jsonb(NEW) END;
    row jsonb := CASE WHEN TG_OP = 'DELETE' THEN before ELSE after END;
    changed jsonb;
    action text;
BEGIN
    SELECT coalesce(jsonb_object_agg(key, after -> key), '{}') INTO changed
    FROM (SELECT jsonb_object_keys(before || after) AS key) AS k
    WHERE after -> key IS DISTINCT FROM before -> key AND key NOT IN ('updated_at', 'alive_at', 'type', 'name');
    action := CASE
        WHEN TG_TABLE_NAME = 'tenants' AND changed ? 'state' THEN
            CASE WHEN row ->> 'state' = 'active' THEN 'tenant add' ELSE 'tenant remove' END
        WHEN TG_TABLE_NAME = 'companies' AND TG_OP = 'INSERT' THEN 'company add'
        WHEN TG_TABLE_NAME IN ('tenants', 'companies') AND changed ? 'login_epoch' THEN 'reset login'
        WHEN TG_TABLE_NAME = 'tenants' THEN 'tenant set'
        WHEN TG_TABLE_NAME = 'job_types' THEN 'type set'
        WHEN TG_TABLE_NAME = 'settings' THEN 'setting'
        ELSE 'worker' END;
    IF action IN ('tenant add', 'tenant remove', 'company add') THEN
        changed := jsonb_strip_nulls(jsonb_build_object('schema', row -> 'schema', 'adopted', row -> 'adopted_schema',
                                                        'name', row -> 'name'));
    END IF;
    IF changed <> '{}' THEN
        INSERT INTO operator_acts (action, tenant_id, subject, detail)
        VALUES (action, CASE TG_TABLE_NAME WHEN 'tenants' THEN (row ->> 'id')::integer END,
                coalesce(row ->> 'slug', row ->> 'type', row ->> 'name', row ->> 'host' || ':' || (row ->> 'pid')), changed);
    END IF;
    RETURN NULL;
END $$;
