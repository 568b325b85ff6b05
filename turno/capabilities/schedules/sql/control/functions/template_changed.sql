-- Insert the copies of a new template, or have the moments of a changed template decided anew; one row of the audit for each.
CREATE OR REPLACE FUNCTION template_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    own schedule_templates := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO template_copies (template_id, tenant_id)
        SELECT NEW.id, n.id FROM tenants n WHERE n.state = 'active'
        ON CONFLICT DO NOTHING;
    ELSIF TG_OP = 'UPDATE' THEN
        UPDATE template_copies c SET next_at = CASE WHEN NEW.paused_at IS NULL THEN clock_timestamp() ELSE 'infinity' END,
            decided_at = NULL, problem = NULL
        WHERE c.template_id = NEW.id AND c.paused_at IS NULL;
    END IF;
    INSERT INTO operator_acts (action, subject, detail)
    VALUES ('template ' || CASE TG_OP WHEN 'INSERT' THEN 'add' WHEN 'UPDATE' THEN 'set' ELSE 'remove' END, own.name,
            jsonb_strip_nulls(jsonb_build_object('type', own.type, 'queue', own.queue, 'cron', own.cron,
                                                 'every', own.every, 'zone', own.zone,
                                                 'paused', own.paused_at IS NOT NULL)));
    RETURN NULL;
END $$;
