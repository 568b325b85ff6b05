-- How many jobs of a type each tenant may submit a day, and from when on alerts are sent: the tenant's value comes before
-- the type's, and that before the installation's. In rate_limits a tenant's jobs of a type are counted under a user whose
-- name begins with \x01, which no user's does.
ALTER TABLE job_types
    ADD jobs_per_day integer CHECK (jobs_per_day > 0),
    ADD alert_failure_percent real CHECK (alert_failure_percent BETWEEN 0 AND 100),
    ADD alert_wait_minutes integer CHECK (alert_wait_minutes BETWEEN 1 AND 10080);
ALTER TABLE tenants
    ADD alert_failure_percent real CHECK (alert_failure_percent BETWEEN 0 AND 100),
    ADD alert_wait_minutes integer CHECK (alert_wait_minutes BETWEEN 1 AND 10080);

CREATE TRIGGER reset_quota AFTER INSERT OR UPDATE OF jobs_per_day ON job_types FOR EACH ROW EXECUTE FUNCTION quota_reset();
CREATE OR REPLACE TRIGGER audit
    AFTER UPDATE OF paused_at, weight, cap, jobs_per_day, backend, tokens_valid_from, login_epoch, alert_failure_percent,
                    alert_wait_minutes ON tenants
    FOR EACH ROW WHEN (OLD.state = 'active' AND NEW.state = 'active') EXECUTE FUNCTION audit_change();
