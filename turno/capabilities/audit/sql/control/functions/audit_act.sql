-- Record an act of an operator. As the owner of the table: after deletion of the folder no other role may insert.
CREATE OR REPLACE FUNCTION audit_act() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    INSERT INTO operator_audit (actor, action, tenant_id, subject, jobs, detail, correlation_id)
    VALUES (NEW.actor, NEW.action, NEW.tenant_id, NEW.subject, NEW.jobs, coalesce(NEW.detail, '{}'), NEW.correlation_id);
    RETURN NEW;
END $$;
