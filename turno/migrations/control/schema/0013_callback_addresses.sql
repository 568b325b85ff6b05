-- Whom operators have told of every end of the jobs of a tenant, of a type, or of both; `count_outcomes` makes the rows of
-- `callbacks`, so that neither a submission nor an end costs more. Only ends after created_at are told.
CREATE TABLE callback_addresses (
    id         integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id  integer,
    type       type_name,
    url        text NOT NULL CHECK (length(url) <= 2000),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (tenant_id, type, url)
);
CREATE TRIGGER audit AFTER INSERT OR DELETE ON callback_addresses FOR EACH ROW EXECUTE FUNCTION audit_change();

-- One end may be told to several: to the address that its submission named, to its user by mail (mailto:), to operators'.
-- One that nobody takes stays with its error until its job is purged, due at no time.
ALTER TABLE callbacks
    DROP CONSTRAINT callbacks_pkey,
    ADD id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ADD address_id integer REFERENCES callback_addresses ON DELETE CASCADE,
    ADD language text CHECK (language IN ('en', 'es')),
    ADD error text,
    ADD UNIQUE (job_id, url);
CREATE INDEX callbacks_failing ON callbacks (tenant_id, id) WHERE error IS NOT NULL;

-- What was not taken at the last try, without what an address may hold in secret: its path and query.
CREATE VIEW failing_callbacks AS
SELECT c.id, n.slug AS tenant, o.slug AS company, c.job_id, c.address_id, c.attempts, c.error,
       regexp_replace(c.url, '^(https?://[^/?]+).+', '\1/…') AS url,
       CASE WHEN isfinite(c.due_at) THEN c.due_at END AS next_at
FROM callbacks c JOIN tenants n ON n.id = c.tenant_id AND n.state = 'active' JOIN companies o ON o.id = n.company_id
WHERE c.error IS NOT NULL;
