-- Give a new tenant a copy of each template, and delete the time zone of a removed tenant. Removal deletes the copies.
CREATE OR REPLACE FUNCTION template_tenant_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.state = 'active' THEN
        INSERT INTO template_copies (template_id, tenant_id, next_at)
        SELECT t.id, NEW.id, CASE WHEN t.paused_at IS NULL THEN clock_timestamp() ELSE 'infinity' END
        FROM schedule_templates t
        ON CONFLICT DO NOTHING;
    ELSIF NEW.state = 'removed' THEN
        DELETE FROM template_zones z WHERE z.tenant_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;
