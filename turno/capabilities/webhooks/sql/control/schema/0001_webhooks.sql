-- Addresses that operators registered for every end of the jobs of a tenant, of a type, or of both; webhooks_due inserts
-- the rows of `webhooks`, so that a submission and an end cost no more. Only ends after created_at are delivered.
CREATE TABLE webhook_addresses (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  integer,
    type       type_name,
    url        text NOT NULL CHECK (length(url) <= 2000),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (tenant_id, type, url)
);

-- Deliveries of the ends of jobs: to the URL of the submission, by mail to its user (mailto:), or to an operator's address.
-- webhooks_due sets the job's end; without due_at the job is open, and with 'infinity' no further try is made: the
-- delivery stays with its error until its job is purged. `attempts` counts failed tries.
CREATE TABLE webhooks (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id     uuid NOT NULL,
    tenant_id  integer NOT NULL,
    url        text NOT NULL CHECK (length(url) <= 2000),
    language   text CHECK (language ~ '^[A-Za-z_]{2,12}$'),
    address_id integer REFERENCES webhook_addresses ON DELETE CASCADE,
    type       type_name,
    outcome    text CHECK (outcome IN ('completed', 'completed_with_failures', 'nothing_done', 'failed', 'cancelled', 'expired')),
    ended_at   timestamptz,
    due_at     timestamptz,
    attempts   integer NOT NULL DEFAULT 0,
    error      text,
    UNIQUE (job_id, url),
    CHECK (due_at IS NULL OR num_nulls(type, outcome, ended_at) = 0)
);
CREATE INDEX webhooks_due ON webhooks (tenant_id, due_at) WHERE due_at < 'infinity';
CREATE INDEX webhooks_failing ON webhooks (tenant_id, id) WHERE error IS NOT NULL;

ALTER TABLE webhooks ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_webhooks ON webhooks USING (tenant_id = (SELECT tenant_of(current_user)));

-- Deliveries whose latest try failed, without the path and query of the URL, which may be secret.
CREATE VIEW failing_webhooks AS
SELECT c.id, n.slug AS tenant, o.slug AS company, c.job_id, c.address_id, c.attempts, c.error, c.ended_at,
       regexp_replace(c.url, '^(https?://[^/?]+).+', '\1/…') AS url,
       CASE WHEN isfinite(c.due_at) THEN c.due_at END AS next_at
FROM webhooks c JOIN tenants n ON n.id = c.tenant_id AND n.state = 'active' JOIN companies o ON o.id = n.company_id
WHERE c.error IS NOT NULL;

INSERT INTO outcome_readers (reader) VALUES ('webhooks');

CREATE TRIGGER audit AFTER INSERT OR DELETE ON webhook_addresses FOR EACH ROW EXECUTE FUNCTION webhook_address_audit();
CREATE TRIGGER webhook_addresses_forget AFTER UPDATE OF state ON tenants
    FOR EACH ROW WHEN (NEW.state = 'removed') EXECUTE FUNCTION webhook_addresses_forget();
