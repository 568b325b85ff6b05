-- What the sweep must know of a tenant's schedules to find the next one that is due without asking every tenant: a copy
-- of each row of the tenants' job_schedules without user and payload, kept by a trigger there.
CREATE TABLE schedules (
    schedule_id uuid PRIMARY KEY,
    tenant_id   integer NOT NULL,
    name        text NOT NULL,
    type        type_name NOT NULL,
    cron        text,
    every       integer,
    zone        text NOT NULL,
    spread      integer NOT NULL,
    missed      text NOT NULL,
    paused_at   timestamptz,
    -- The first moment for which no job was made yet; without one it is paused.
    next_at     timestamptz,
    -- When next_at was decided: a moment that is still to come says that the clock was set back since.
    decided_at  timestamptz NOT NULL,
    problem     text
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
CREATE INDEX schedules_due ON schedules (next_at, schedule_id) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_decided ON schedules (decided_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_of_tenant ON schedules (tenant_id, name);

ALTER TABLE schedules ENABLE ROW LEVEL SECURITY;
CREATE POLICY own_schedules ON schedules USING (tenant_id = (SELECT tenant_of(current_user)));

-- The schedules as operators see them, of every tenant that is there.
CREATE VIEW schedules_listed AS
SELECT n.slug, n.company_id, n.paused_at AS tenant_paused_at, s.name, s.type, s.cron, s.every, s.zone, s.spread, s.missed,
       s.paused_at, s.next_at, s.problem
FROM schedules s JOIN tenants n ON n.id = s.tenant_id WHERE n.state = 'active';
