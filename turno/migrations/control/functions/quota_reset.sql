-- A new limit of a tenant or a type begins unused: the used part was measured by the old limit.
CREATE OR REPLACE FUNCTION quota_reset() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF TG_TABLE_NAME = 'tenants' THEN
        DELETE FROM rate_limits WHERE tenant_id = NEW.id AND name = 'jobs_per_day_per_tenant';
    ELSE
        DELETE FROM rate_limits WHERE name = 'jobs_per_day_per_type' AND subject = NEW.type;
    END IF;
    RETURN NULL;
END $$;
