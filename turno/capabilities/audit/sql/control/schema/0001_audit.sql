-- Changes by operators. Triggers add each row in the transaction of the change; no role may change or delete a row.
CREATE TABLE operator_audit (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor          text NOT NULL CHECK (length(actor) BETWEEN 1 AND 255),
    login          text NOT NULL DEFAULT session_user,
    action         text NOT NULL,
    -- Changes of one tenant have its number, changes of a type, a setting or a worker have a subject.
    tenant_id      integer,
    subject        text,
    jobs           integer,
    detail         jsonb NOT NULL DEFAULT '{}',
    correlation_id correlation_id
);
CREATE INDEX operator_audit_of_tenant ON operator_audit (tenant_id, id);

-- Runs after the trigger `act` of the core.
CREATE TRIGGER audit INSTEAD OF INSERT ON operator_acts FOR EACH ROW EXECUTE FUNCTION audit_act();

CREATE TRIGGER audit
    AFTER UPDATE OF paused_at, weight, cap, jobs_per_day, backend, queue, tokens_valid_from, login_epoch,
                    alert_failure_percent, alert_wait_minutes ON tenants
    FOR EACH ROW WHEN (OLD.state = 'active' AND NEW.state = 'active') EXECUTE FUNCTION audit_change();
CREATE TRIGGER audit_state AFTER UPDATE OF state ON tenants
    FOR EACH ROW WHEN (OLD.state <> NEW.state AND NEW.state <> 'provisioning') EXECUTE FUNCTION audit_change();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OF login_epoch ON companies FOR EACH ROW EXECUTE FUNCTION audit_change();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON job_types FOR EACH ROW EXECUTE FUNCTION audit_change();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON settings FOR EACH ROW EXECUTE FUNCTION audit_change();
CREATE TRIGGER audit AFTER UPDATE OF request ON workers FOR EACH ROW
    WHEN (OLD.request IS DISTINCT FROM NEW.request) EXECUTE FUNCTION audit_change();
