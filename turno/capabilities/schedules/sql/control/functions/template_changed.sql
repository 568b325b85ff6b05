-- Keep the copies of a template, and record its change.
CREATE OR REPLACE FUNCTION template_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    own schedule_templates := CASE TG_OP WHEN 'DELETE' THEN OLD ELSE NEW END;
BEGIN
    IF TG_OP <> 'DELETE' THEN
        PERFORM template_copy(NEW.id, NULL);
    END IF;
    INSERT INTO operator_acts (action, subject, detail)
    VALUES ('template ' || CASE TG_OP WHEN 'INSERT' THEN 'add' WHEN 'UPDATE' THEN 'set' ELSE 'remove' END, own.name,
            jsonb_strip_nulls(jsonb_build_object('type', own.type, 'queue', own.queue, 'cron', own.cron,
                                                 'every', own.every, 'zone', own.zone,
                                                 'paused', own.paused_at IS NOT NULL)));
    RETURN NULL;
END $$;

-- Insert or replace the copies of a template or of a tenant, whose moments are then decided anew. A copy that its tenant
-- paused stays paused.
CREATE OR REPLACE FUNCTION template_copy(p_template uuid, p_tenant integer) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO schedules AS s (tenant_id, template_id, name, type, queue, cron, every, zone, spread, missed, next_at)
    SELECT n.id, t.id, t.name, t.type, t.queue, t.cron, t.every, coalesce(z.zone, t.zone), t.spread, t.missed,
           CASE WHEN t.paused_at IS NULL THEN clock_timestamp() END
    FROM schedule_templates t CROSS JOIN tenants n LEFT JOIN template_zones z ON z.tenant_id = n.id
    WHERE n.state = 'active' AND t.id = coalesce(p_template, t.id) AND n.id = coalesce(p_tenant, n.id)
    ON CONFLICT (tenant_id, template_id) DO UPDATE
    SET type = excluded.type, queue = excluded.queue, cron = excluded.cron, every = excluded.every, zone = excluded.zone,
        spread = excluded.spread, missed = excluded.missed, decided_at = NULL, problem = NULL,
        next_at = CASE WHEN s.paused_at IS NULL THEN excluded.next_at END;
END $$;

-- Keep the copies of a new tenant, and of a tenant with another time zone; delete the time zone of a removed tenant, whose
-- copies its removal deletes.
CREATE OR REPLACE FUNCTION template_tenant_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.state = 'active' AND OLD.state IS DISTINCT FROM NEW.state THEN
        PERFORM template_copy(NULL, NEW.id);
    ELSIF NEW.state = 'removed' THEN
        DELETE FROM template_zones z WHERE z.tenant_id = NEW.id;
    END IF;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION template_zone_changed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM template_copy(NULL, coalesce(NEW.tenant_id, OLD.tenant_id));
    RETURN NULL;
END $$;
