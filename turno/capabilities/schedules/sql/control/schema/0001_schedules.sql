-- A copy of each row of the tenants' job_schedules without user and payload, kept by a trigger there, so that maintenance
-- finds due schedules without a query per tenant.
CREATE TABLE schedules (
    schedule_id uuid PRIMARY KEY,
    tenant_id   integer NOT NULL,
    name        text NOT NULL,
    type        type_name NOT NULL,
    queue       queue_name,
    cron        text,
    every       integer,
    zone        text NOT NULL,
    spread      integer NOT NULL,
    missed      text NOT NULL,
    paused_at   timestamptz,
    -- The first moment that has no job yet; NULL while the schedule is paused.
    next_at     timestamptz,
    -- When next_at was decided: a time in the future shows that the clock was set back since.
    decided_at  timestamptz NOT NULL,
    problem     text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX schedules_due ON schedules (next_at, tenant_id) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_decided ON schedules (decided_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_of_tenant ON schedules (tenant_id, name);
CREATE INDEX schedules_with_problem ON schedules (tenant_id) WHERE problem IS NOT NULL;

ALTER TABLE schedules ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_schedules ON schedules USING (tenant_id = (SELECT tenant_of(current_user)));

-- The schedules of every active tenant, as operators see them.
CREATE VIEW schedules_listed AS
SELECT n.slug, n.company_id, n.paused_at AS tenant_paused_at, s.name, s.type, s.queue, s.cron, s.every, s.zone, s.spread,
       s.missed, s.paused_at, s.next_at, s.decided_at, s.problem
FROM schedules s JOIN tenants n ON n.id = s.tenant_id WHERE n.state = 'active';
