-- Recurring jobs of all active tenants. Operators write these rows; a trigger resets the copies of a changed rule.
CREATE TABLE schedule_templates (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    name        text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9._-]{0,62}$'),
    type        type_name NOT NULL,
    payload     job_payload NOT NULL,
    priority    smallint NOT NULL CHECK (priority BETWEEN 0 AND 2),
    -- One of the queues of the type; NULL: the queue of the type.
    queue       queue_name,
    -- The user of the jobs.
    user_id     user_name NOT NULL,
    concurrency_key concurrency_key,
    cron        text CHECK (length(cron) BETWEEN 1 AND 200),
    every       integer CHECK (every BETWEEN 60 AND 31622400),
    -- The time zone of tenants without a row in template_zones.
    zone        text NOT NULL CHECK (length(zone) BETWEEN 1 AND 64),
    spread      integer NOT NULL CHECK (spread BETWEEN 0 AND 86400),
    missed      text NOT NULL CHECK (missed IN ('skip', 'once', 'all')),
    paused_at   timestamptz,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (num_nulls(cron, every) = 1)
);

CREATE TABLE template_zones (
    tenant_id integer PRIMARY KEY,
    zone      text NOT NULL CHECK (length(zone) BETWEEN 1 AND 64)
);

-- The recurring jobs of each tenant without user and payload, by which maintenance finds due jobs without a query per
-- tenant: a copy of each row of the tenants' job_schedules, which a trigger there keeps, and a copy of each template for
-- each active tenant, in its time zone, which the triggers below keep.
CREATE TABLE schedules (
    schedule_id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id   integer NOT NULL,
    template_id uuid REFERENCES schedule_templates ON DELETE CASCADE,
    name        text NOT NULL,
    type        type_name NOT NULL,
    queue       queue_name,
    cron        text,
    every       integer,
    zone        text NOT NULL,
    spread      integer NOT NULL,
    missed      text NOT NULL,
    -- Of a template: paused by the tenant.
    paused_at   timestamptz,
    paused_by   text,
    -- The first moment that has no job yet; NULL while the schedule, the copy or its template is paused.
    next_at     timestamptz,
    -- When next_at was decided: a time in the future shows that the clock was set back since. NULL for a new or changed
    -- copy of a template: no moment has been decided.
    decided_at  timestamptz,
    problem     text,
    missed_runs bigint NOT NULL DEFAULT 0,
    -- Of a template; a schedule has them in job_schedules.
    open_jobs   uuid[] NOT NULL DEFAULT '{}',
    UNIQUE (tenant_id, template_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX schedules_due ON schedules (next_at, tenant_id) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_decided ON schedules (decided_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_of_tenant ON schedules (tenant_id, name);
CREATE INDEX schedules_of_template ON schedules (template_id) WHERE template_id IS NOT NULL;
CREATE INDEX schedules_with_problem ON schedules (tenant_id) WHERE problem IS NOT NULL;

-- The job of each moment. A moment has at most one job, even if the rule or the clock changes.
CREATE TABLE template_runs (
    job_id      uuid PRIMARY KEY,
    tenant_id   integer NOT NULL,
    template_id uuid NOT NULL REFERENCES schedule_templates ON DELETE CASCADE,
    moment      timestamptz NOT NULL,
    UNIQUE (tenant_id, template_id, moment)
);
CREATE INDEX template_runs_of_template ON template_runs (template_id, job_id);

ALTER TABLE schedules ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_schedules ON schedules USING (tenant_id = (SELECT tenant_of(current_user)));
ALTER TABLE template_runs ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_template_runs ON template_runs USING (tenant_id = (SELECT tenant_of(current_user)));

-- The recurring jobs of every active tenant, as operators see them.
CREATE VIEW schedules_listed AS
SELECT n.slug, n.company_id, n.paused_at AS tenant_paused_at, s.template_id, s.name, s.type, s.queue, s.cron, s.every,
       s.zone, s.spread, s.missed, s.paused_at, s.paused_by, CASE WHEN s.decided_at IS NOT NULL THEN s.next_at END AS next_at,
       s.decided_at, s.missed_runs, s.problem
FROM schedules s JOIN tenants n ON n.id = s.tenant_id WHERE n.state = 'active';

CREATE VIEW template_jobs AS
SELECT r.job_id, t.name FROM template_runs r JOIN schedule_templates t ON t.id = r.template_id;

CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON schedule_templates
    FOR EACH ROW EXECUTE FUNCTION template_changed();
CREATE TRIGGER changed AFTER INSERT OR UPDATE OR DELETE ON template_zones
    FOR EACH ROW EXECUTE FUNCTION template_zone_changed();
CREATE TRIGGER template_tenant_changed AFTER INSERT OR UPDATE OF state ON tenants
    FOR EACH ROW EXECUTE FUNCTION template_tenant_changed();
