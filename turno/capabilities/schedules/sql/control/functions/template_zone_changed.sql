-- Have the moments of a tenant's copies decided anew in its new time zone.
CREATE OR REPLACE FUNCTION template_zone_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE template_copies c SET next_at = clock_timestamp(), decided_at = NULL, problem = NULL
    WHERE c.tenant_id = coalesce(NEW.tenant_id, OLD.tenant_id) AND isfinite(c.next_at);
    RETURN NULL;
END $$;
