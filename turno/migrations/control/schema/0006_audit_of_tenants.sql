-- Adding and removing tenants and companies, and new passwords of their logins, are on record, too.
CREATE OR REPLACE TRIGGER audit
    AFTER UPDATE OF paused_at, weight, cap, jobs_per_day, backend, tokens_valid_from, login_epoch ON tenants
    FOR EACH ROW WHEN (OLD.state = 'active' AND NEW.state = 'active') EXECUTE FUNCTION audit_change();
CREATE TRIGGER audit_coming_and_going AFTER UPDATE OF state ON tenants
    FOR EACH ROW WHEN (OLD.state <> NEW.state AND NEW.state <> 'provisioning') EXECUTE FUNCTION audit_change();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OF login_epoch ON companies FOR EACH ROW EXECUTE FUNCTION audit_change();
